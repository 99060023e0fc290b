"""The part of kustomize that our manifests use, for machines without kubectl."""

from pathlib import Path

import yaml

CLUSTER_WIDE = {"Namespace"}


class UnknownField(Exception):
    """A kustomization uses a field that is not rendered here."""


def render(folder: Path) -> list[dict]:
    """Return the objects that `kubectl apply -k FOLDER` would send."""
    wanted = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = wanted.keys() - {"apiVersion", "kind", "namespace", "labels", "resources", "images", "patches"}
    if unknown:
        raise UnknownField(f"{folder.name}: {', '.join(sorted(unknown))}")
    objects = [one for name in wanted["resources"] for one in _resource(folder / name)]
    for one in objects:
        if "namespace" in wanted and one["kind"] not in CLUSTER_WIDE:
            one["metadata"]["namespace"] = wanted["namespace"]
        for label in wanted.get("labels", ()):
            _label(one, label)
        for image in wanted.get("images", ()):
            _set_image(one, image)
    for patch in wanted.get("patches", ()):
        _patch(objects, patch)
    return objects


def _resource(path: Path) -> list[dict]:
    return render(path) if path.is_dir() else [one for one in yaml.safe_load_all(path.read_text()) if one]


def _label(one: dict, label: dict) -> None:
    places = [one["metadata"]]
    if label.get("includeTemplates") and "template" in one.get("spec", {}):
        places.append(one["spec"]["template"].setdefault("metadata", {}))
    for place in places:
        place.setdefault("labels", {}).update(label["pairs"])


def _set_image(one: dict, image: dict) -> None:
    pod = one.get("spec", {}).get("template", {}).get("spec", {})
    for container in pod.get("containers", []) + pod.get("initContainers", []):
        if container["image"].split(":")[0] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"


def _patch(objects: list[dict], patch: dict) -> None:
    target = patch["target"]
    (one,) = [
        one for one in objects if (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"])
    ]
    for change in yaml.safe_load(patch["patch"]):
        if change["op"] != "remove":
            raise UnknownField(f"the patch operation {change['op']}")
        *parents, last = change["path"].strip("/").split("/")
        for name in parents:
            one = one[name]
        del one[last]
