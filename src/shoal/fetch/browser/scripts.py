"""Scripts that run inside pages."""

import json

# The current HTML, or its length where that is above the limit.
HTML = """(() => {
  const kind = document.doctype ? "<!DOCTYPE " + document.doctype.name + ">" : "";
  const text = kind + (document.documentElement ? document.documentElement.outerHTML : "");
  return text.length > %d ? text.length : text;
})()"""

_WAIT_FOR_SELECTOR = """new Promise(done => {
  const look = () => document.querySelector(%s);
  if (look()) return done(true);
  const watch = new MutationObserver(() => { if (look()) { watch.disconnect(); done(true); } });
  watch.observe(document, {childList: true, subtree: true, attributes: true});
})"""

_CLICK = """(() => { const found = document.querySelector(%s);
  if (!found) return false; found.scrollIntoView({block: "center"}); found.click(); return true; })()"""

_FILL = """(() => { const found = document.querySelector(%s);
  if (!found) return false;
  found.focus();
  const kind = Object.getPrototypeOf(found), set = Object.getOwnPropertyDescriptor(kind, "value")?.set;
  if (set) set.call(found, %s);
  else if (found.isContentEditable) found.textContent = %s;
  else found.value = %s;
  found.dispatchEvent(new Event("input", {bubbles: true}));
  found.dispatchEvent(new Event("change", {bubbles: true}));
  return true; })()"""


def wait_for_selector(selector: str) -> str:
    """Return a script that waits until something matches a selector."""
    return _WAIT_FOR_SELECTOR % json.dumps(selector)


def click(selector: str) -> str:
    """Return a script that clicks on the first match, and tells whether there is one."""
    return _CLICK % json.dumps(selector)


def fill(selector: str, text: str) -> str:
    """Return a script that types into the first match as a user would, and tells whether there is one."""
    written = json.dumps(text)
    return _FILL % (json.dumps(selector), written, written, written)
