"""The `[deploy]` table of a project file: the image, the secrets and the services of a deployment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.values import read_choice, read_text, read_whole, read_words
from shoal.fleet.project.cluster import read_count, read_fields, setting

_IMAGE = re.compile(r"[a-z0-9][\w.\-/:@]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SERVICE = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")  # a DNS label, with room for a prefix
ARCHITECTURES = ("amd64", "arm64")  # as Docker and Kubernetes name them
TASKS_PER_WORKER = 1_000  # as in deploy/kubernetes/keda-metrics
# Those that a deployment has anyway.
RESERVED = (
    *("coordinator", "metrics", "migrate", "web"),
    *("postgres", "pgbouncer", "redis", "rabbitmq"),
)


def _replicas(key: str, value: Any) -> int:
    return read_whole(key, value, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Workers of one kind: what they serve, how many containers there are, and processes in each."""

    scrapers: tuple[str, ...] = setting(read_words, ())  # default: all
    steps: tuple[str, ...] = setting(read_words, ())  # default: all
    replicas: int = setting(_replicas, 2)
    workers: int | None = setting(read_count)
    # With `max_replicas`, KEDA decides between the two in Kubernetes.
    min_replicas: int | None = setting(_replicas)
    max_replicas: int | None = setting(read_count)
    tasks_per_worker: int | None = setting(read_count)


def _image(key: str, value: Any) -> str:
    text = read_text(key, value)
    if not _IMAGE.fullmatch(text):
        raise InvalidSetting(key, f"must be an image such as registry.example.com/books:1, got {text!r}")
    return text


def _secrets(key: str, value: Any) -> tuple[str, ...]:
    names = read_words(key, value)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            # Shown in part: it may be the secret itself.
            raise InvalidSetting(
                key, f"must hold names of environment variables such as SHOAL_TOKENS, not {name[:4]!r}…"
            )
    return tuple(dict.fromkeys(names))


def _services(key: str, value: Any) -> dict[str, ServiceSettings]:
    if not isinstance(value, dict) or not value:
        raise InvalidSetting(key, "must be tables, each such as [deploy.services.profile]")
    for name in value:
        if not _SERVICE.fullmatch(name) or name in RESERVED:
            raise InvalidSetting(f"{key}.{name}", "must be another name: small letters, digits and -")
    return {name: _service(f"{key}.{name}", one) for name, one in value.items()}


def _service(key: str, value: Any) -> ServiceSettings:
    found = read_fields(ServiceSettings, key, value)
    if found.max_replicas is None:
        for name in ("min_replicas", "tasks_per_worker"):
            if getattr(found, name) is not None:
                raise InvalidSetting(f"{key}.{name}", "is for autoscaling: set max_replicas too")
    elif (found.min_replicas or 0) > found.max_replicas:
        raise InvalidSetting(f"{key}.min_replicas", f"must be at most max_replicas, {found.max_replicas}")
    return found


def _architecture(key: str, value: Any) -> str:
    return read_choice(key, value, ARCHITECTURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySettings:
    """What `shoal deploy` needs to know beyond the rest of the project file."""

    image: str | None = setting(_image)
    architecture: str = setting(_architecture, "amd64")
    secrets: tuple[str, ...] = setting(_secrets, ())  # names of environment variables
    services: Mapping[str, ServiceSettings] = field(default_factory=dict, metadata={"read": _services})


NO_DEPLOY = DeploySettings()
