"""The `[deploy]` table, and what a deployment is made of."""

import pytest
import yaml

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.version import VERSION
from shoal.fleet.project.deployment import Deployment, deployment_files, image_commands
from shoal.fleet.project.file import Project

SCRAPER = """
from shoal import Scraper
people = Scraper("people", fetch="{fetch}")

@people.step
async def search(page): ...

@people.step
async def profile(page): ...
"""


@pytest.fixture
def project(tmp_path):
    """Write a project with these lines, and return it."""

    def write(text="", fetch="http", folder="Night People_2"):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "people.py").write_text(SCRAPER.format(fetch=fetch))
        (place / "shoal.toml").write_text(f'{text}\n[scrapers.people]\nmodule = "people.py"\n')
        return Project.find(place)

    return write


def test_without_a_table_one_service_serves_everything(project):
    plan = Deployment.of(project(), None)
    assert (plan.name, plan.image, plan.queue, plan.secrets) == (
        "night-people-2",
        "night-people-2:1",
        "postgres",
        (),
    )
    (service,) = plan.services
    assert (service.name, service.command) == ("worker", ("shoal", "start", "--role", "worker"))
    assert plan.results is None


@pytest.mark.parametrize(
    ("queue", "kind", "namespace"),
    [
        (None, "postgres", ""),
        ("sqlite:///shoal.db", "postgres", ""),
        ("postgresql://db/shoal?namespace=news", "postgres", "news"),
        ("redis://:hidden@cache/0", "redis", ""),
        ("amqp://mq/?state=redis://cache/0&namespace=a", "rabbitmq", "a"),
    ],
)
def test_the_servers_are_those_of_the_queue(project, queue, kind, namespace):
    plan = Deployment.of(project(), queue)
    assert (plan.queue, plan.namespace) == (kind, namespace)
    assert "hidden" not in repr(plan)


def test_each_service_serves_its_steps(project):
    text = (
        '[deploy]\nimage = "reg.example.com/people:7"\nsecrets = ["GITHUB_TOKENS"]\n'
        '[deploy.services.search]\nsteps = ["search"]\nreplicas = 1\n'
        '[deploy.services.profile]\nscrapers = ["people"]\nsteps = ["profile"]\nreplicas = 5\nworkers = 3\n'
    )
    plan = Deployment.of(project(text), None)
    assert [(one.name, one.replicas) for one in plan.services] == [("search", 1), ("profile", 5)]
    assert plan.services[1].command == (
        *("shoal", "start", "--role", "worker", "people"),
        *("--steps", "profile", "--workers", "3"),
    )
    assert (plan.image, plan.secrets) == ("reg.example.com/people:7", ("GITHUB_TOKENS",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[deploy]\nimages = 'a'", r"deploy.images is not known. Did you mean 'image'\?"),
        ("[deploy]\nimage = 'A B'", "must be an image such as"),
        ("[deploy]\nsecrets = ['ghp-0123456789abcdef']", "names of environment variables.*not 'ghp-'…"),
        ("[deploy.services.Big]", "must be another name"),
        ("[deploy.services.web]", "must be another name"),
        ("[deploy.services.a]\nreplicas = -1", "must be a whole number from 0"),
        ("[deploy.services.a]\nstep = 'search'", r"a.step is not known. Did you mean 'steps'\?"),
        ("[deploy.services.a]\nsteps = ['serch']", r"'serch' is no step. Did you mean 'search'\?"),
        ("[deploy.services.a]\nscrapers = ['peple']", r"'peple' is no scraper. Did you mean 'people'\?"),
        ("[deploy]\narchitecture = 'arm'", "architecture must be 'amd64' or 'arm64', got 'arm'"),
        ("[deploy.services.a]\nmin_replicas = 1", "a.min_replicas is for autoscaling: set max_replicas too"),
        ("[deploy.services.a]\nmin_replicas = 3\nmax_replicas = 2", "must be at most max_replicas, 2"),
        ("[deploy.services.a]\nmax_replicas = 0", "must be a whole number from 1"),
        ("[deploy.services.a]\nsteps = ['search']", "leave out the step 'profile' of 'people'"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_no_secret_is_shown(project, text, message):
    with pytest.raises(InvalidSetting, match=message) as told:
        Deployment.of(project(text), None)
    assert "0123456789" not in str(told.value)


def test_a_folder_without_scrapers_cannot_be_deployed(tmp_path):
    with pytest.raises(InvalidInput, match=r"No shoal.toml with scrapers .* Run: shoal new shop"):
        Deployment.of(Project.find(tmp_path), None)


@pytest.mark.parametrize(
    ("results", "folder"),
    [
        ("results/{scraper}.jsonl", "/project/results"),
        ("/results/{run}.jsonl", "/results"),
        ("postgresql://db/x?table=people", None),
    ],
)
def test_results_have_a_volume_unless_they_go_to_a_database(project, results, folder):
    assert Deployment.of(project(f'[storage]\nresults = "{results}"\n'), None).results == folder


@pytest.mark.parametrize(("fetch", "has_browser"), [("http", False), ("browser", True), ("auto", True)])
def test_a_scraper_that_needs_a_browser_is_noticed(project, fetch, has_browser):
    assert Deployment.of(project(fetch=fetch), None).has_browser is has_browser


def test_folders_of_downloads_are_volumes_and_buckets_are_not(project):
    plain = deployment_files("compose", Deployment.of(project(), None), "..")["compose.yaml"]
    assert "files" not in yaml.safe_load(plain)["volumes"]
    kept = project()
    (kept.folder / "shoal.toml").write_text('[scrapers.people]\nmodule = "people.py"\nfiles = "images/all"\n')
    plan = Deployment.of(Project.find(kept.folder), None)
    compose = yaml.safe_load(deployment_files("compose", plan, "..")["compose.yaml"])
    assert compose["services"]["worker"]["volumes"] == ["files:/project/images/all"]
    assert compose["volumes"]["files"] == {}
    (kept.folder / "shoal.toml").write_text('[scrapers.people]\nmodule = "people.py"\nfiles = "s3://b/i"\n')
    plan = Deployment.of(Project.find(kept.folder), None)
    assert (plan.files, plan.buckets) == ((), ("s3://b/i",))


def test_buckets_of_results_are_known_also_those_of_schedules(project):
    kept = project(
        '[storage]\nresults = "gs://b/{scraper}.jsonl"\n'
        '[schedules.nightly]\nscraper = "people"\nevery = "1d"\nout = "s3://b/{run}.jsonl"\n'
    )
    assert Deployment.of(kept, None).buckets == ("gs://b/{scraper}.jsonl", "s3://b/{run}.jsonl")


def test_the_images_that_a_compose_file_needs_are_said(project):
    kept = project('queue = "redis://cache/0"', fetch="browser")
    plan = Deployment.of(kept, "redis://cache/0")
    (command,) = image_commands(plan)
    assert command.endswith(f"--target browser -t shoal:{VERSION}-browser .")
    assert len(image_commands(Deployment.of(kept, None))) == 2
    assert len(image_commands(Deployment.of(kept, None), has_servers=False)) == 1
    assert f"#   {command}\n" in deployment_files("compose", plan, "..")["compose.yaml"]
