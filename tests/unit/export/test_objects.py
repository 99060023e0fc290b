"""What an error of object storage says to the user."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.export.objects import ObjectAddress


class PermissionDeniedError(Exception):
    """As obstore names it."""


@pytest.mark.parametrize(
    ("scheme", "error", "reason", "advice"),
    [
        (
            "s3",
            PermissionDeniedError(),
            "access is denied",
            "AWS_SECRET_ACCESS_KEY, and what they may do in bucket",
        ),
        ("az", PermissionDeniedError(), "access is denied", "Check AZURE_STORAGE_ACCOUNT_NAME and"),
        ("az", FileNotFoundError(), "there is no container 'shop'", "Create it, or check its name"),
        ("gs", FileNotFoundError(), "there is no bucket 'shop'", "Create it, or check its name"),
        (
            "az",
            ValueError("Generic MicrosoftAzure error: Invalid Access Key: Invalid last symbol 0x45 ('E')"),
            "the account key is not valid base64",
            "AZURE_STORAGE_ACCOUNT_KEY",
        ),
        (
            "gs",
            ValueError("Generic GCS error: Unable to open service account file from /a.json: No such file"),
            "Unable to open service account file from /a.json: No such file",
            "Check GOOGLE_APPLICATION_CREDENTIALS, and the bucket 'shop'",
        ),
        (
            "gs",
            ValueError("Generic GCS error: token request: GET http://169.254.169.254/computeMetadata"),
            "no credentials were found",
            "Set GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            "az",
            ValueError("GET https://abc.blob.core.windows.net/shop/x - HTTP error: error sending request"),
            "its server (Azure Blob Storage) cannot be reached",
            "Check the network and AZURE_STORAGE_ACCOUNT_NAME",
        ),
    ],
)
def test_an_error_says_what_to_check(scheme, error, reason, advice):
    problem = ObjectAddress.read(f"{scheme}://shop/items.jsonl").explain(error)
    assert problem.reason == reason and advice in problem.advice
    assert problem.is_unreachable is ("its server" in reason)


@pytest.mark.parametrize(
    ("scheme", "name"), [("s3", "AWS_ENDPOINT_URL"), ("gs", "GOOGLE_BASE_URL"), ("az", "AZURE_ENDPOINT")]
)
def test_an_endpoint_that_is_no_address_is_refused(monkeypatch, scheme, name):
    monkeypatch.setenv(name, "localhost:9000")
    with pytest.raises(InvalidSetting, match=f"{name} must begin with http:// or https://; got 'localhost"):
        ObjectAddress.read(f"{scheme}://shop/items.jsonl").open()


@pytest.mark.parametrize("status", ["503 Service Unavailable", "429 Too Many Requests", "500 Error"])
def test_a_server_with_an_error_of_its_own_may_be_tried_again(status):
    text = f"Generic S3 error: after 5 retries - Server returned non-2xx status code: {status}: <?xml"
    problem = ObjectAddress.read("s3://shop/items.jsonl").explain(ValueError(text))
    assert problem.is_unreachable and problem.reason.endswith(f"returned {status}")


@pytest.mark.parametrize(
    "key", ["x/../items.jsonl", "a//items.jsonl", "./items.jsonl", "a/%2e%2e/items.jsonl"]
)
def test_a_name_with_empty_or_dotted_parts_is_refused_for_that_reason(key):
    with pytest.raises(InvalidSetting, match=r"has two slashes in a row, or a part that is \. or \.\."):
        ObjectAddress.read(f"s3://shop/{key}")
    assert ObjectAddress.read("s3://shop//a/..b/.items.jsonl/").key == "a/..b/.items.jsonl"
