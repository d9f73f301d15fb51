"""A real S3-compatible server: that of moto, a process of its own that checks signatures."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUCKET = "results"
_START_S, _STOP_S, _LIFE_S = 60.0, 20.0, 3600.0
_SETTING_UP = 4  # requests that need no permission: those of `_set_up`
_POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket and one user.

    Attributes:
        url: address on the loopback.
        key: access key of the user.
        secret: goes with it.
        process: ends with the server, which even after a killed test lives for `_LIFE_S` only.
    """

    url: str
    key: str
    secret: str
    process: subprocess.Popen


@contextmanager
def s3_server(log: Path) -> Iterator[S3Server]:
    """Run a server on a free port; it is gone when the block is left.

    Args:
        log: file for what the server prints.

    Raises:
        AssertionError: it does not start in time.
    """
    command = ["timeout", str(_LIFE_S), sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"]
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_SETTING_UP), "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        url = _address(process, log)
        yield S3Server(url, *_set_up(url), process)
    finally:
        process.terminate()  # `timeout` hands it on
        process.wait(_STOP_S)


def _address(process: subprocess.Popen, log: Path) -> str:
    end = time.monotonic() + _START_S
    while not (found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, f"no address after {_START_S} s: {log.read_text()}"
        time.sleep(0.05)
    return found[1]


def _set_up(url: str) -> tuple[str, str]:
    """Make the bucket, and a user who may use S3; return the user's key and secret."""
    import boto3
    from botocore.config import Config

    settings = Config(connect_timeout=10, read_timeout=30, retries={"total_max_attempts": 1}, proxies={})
    anybody = {
        "endpoint_url": url,
        "region_name": "us-east-1",
        "aws_access_key_id": "anybody",
        "aws_secret_access_key": "anything",
        "config": settings,
    }
    boto3.client("s3", **anybody).create_bucket(Bucket=BUCKET)
    users = boto3.client("iam", **anybody)
    users.create_user(UserName="tester")
    users.put_user_policy(UserName="tester", PolicyName="s3", PolicyDocument=json.dumps(_POLICY))
    made = users.create_access_key(UserName="tester")["AccessKey"]
    return made["AccessKeyId"], made["SecretAccessKey"]
