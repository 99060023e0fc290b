import asyncio
import json

import pytest
from social import API, UserGone, followers, profile

from shoal import Task
from shoal.testing import page, run_step


def test_a_profile_task_yields_the_profile_of_its_user():
    def send(task):
        assert task.url == f"{API}/users/ann"
        return page(b'{"username": "ann", "bio": "", "followers": 2}')

    found = asyncio.run(run_step(profile, Task(payload={"username": "ann"}), send=send))
    assert found.items == [{"type": "profile", "username": "ann", "bio": "", "followers": 2}]


def test_followers_are_read_page_by_page_up_to_the_limit():
    asked = []

    def send(task):
        asked.append(task.url)
        number = len(asked)
        return page(json.dumps({"followers": [f"u{number}a", f"u{number}b"], "next": number + 1}).encode())

    task = Task(payload={"username": "ann", "limit": 3})
    (item,) = asyncio.run(run_step(followers, task, send=send)).items
    assert item["followers"] == ["u1a", "u1b", "u2a"]
    assert asked == [f"{API}/users/ann/followers?page={number}" for number in (1, 2)]


def test_an_account_that_is_gone_is_an_error_of_its_own():
    with pytest.raises(UserGone):
        asyncio.run(
            run_step(profile, Task(payload={"username": "ann"}), send=lambda task: page("", status=410))
        )
