"""The site of the guides' examples, small enough for a test: two listings of quotes, and their authors."""

from tests.integration.engine.origin import Answer

AUTHORS = {"jane": "Jane Austen", "oscar": "Oscar Wilde"}


def answer(path: str) -> Answer:
    """Serve the listings at / and /page/2, and an author at /author/NAME."""
    if path == "/robots.txt":
        return Answer("")
    if path.startswith("/author/"):
        name = AUTHORS[path.removeprefix("/author/")]
        return Answer(f"<h3 class=author-title>{name}</h3><span class=author-born-date>1775</span>")
    return Answer(_listing("oscar", "") if path == "/page/2" else _listing("jane", "/page/2"))


def _listing(author: str, after: str) -> str:
    onward = f"<li class=next><a href='{after}'>Next</a></li>" if after else ""
    return (
        f"<div class=quote><span class=text>Quote of {author}</span>"
        f"<span><small class=author>{AUTHORS[author]}</small> <a href='/author/{author}'>(about)</a></span>"
        f"<a class=tag href='/tag/wit'>wit</a></div>{onward}"
    )
