"""Secrets stay on the device; what is no secret stays byte for byte."""

from __future__ import annotations

import json
import time

import pytest

from app.cli.client.push.redaction import Redactor

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
SECRETS = {
    "AWS Access Key": "AKIA" + "Q3EGRZ7XW2LMNOPQ",
    "Anthropic Key": "sk-ant-" + "api03-abcdefghijklmnopqrst_uv-w",
    "GitHub Token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "JSON Web Token": "eyJhbGciOiJIUzI1NiJ9."
    + "eyJzdWIiOiIxMjM0NTY3ODkwIn0."
    + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "Hugging Face Token": "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "NPM Token": "npm_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "NPM configuration": "_authToken=" + "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "Private Key": KEY,
    "Slack Token": "xoxb-" + "123456789012-abcdefabcdef",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_taken_out_of_a_line_that_stays_valid(secret: str) -> None:
    redactor = Redactor()
    record = {"type": "user", "message": {"content": [{"type": "text", "text": f"use {secret} for it"}]}, "n": 1}
    (line,) = redactor.lines([json.dumps(record).encode() + b"\n"])
    assert secret not in json.loads(line)["message"]["content"][0]["text"]
    assert secret.split("\n", maxsplit=1)[0][10:] not in line.decode()
    assert json.loads(line)["message"]["content"][0]["text"].startswith("use [redacted: ")
    assert json.loads(line)["n"] == 1
    assert redactor.count == 1


def test_a_line_without_a_secret_stays_byte_for_byte() -> None:
    lines = [
        b'{"type":"user", "text" : "the password is in the quick vault at 192.0.2.7, C++ \\u00fc"}\r\n',
        b"no json at all \xff\xfe\n",
        b'{"hash": "d41d8cd98f00b204e9800998ecf8427e", "id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301"}\n',
    ]
    redactor = Redactor()
    assert list(redactor.lines(lines)) == lines
    assert redactor.count == 0


def test_a_line_that_is_no_record_loses_its_secret_too() -> None:
    (line,) = Redactor().lines([b"cut off \xff " + SECRETS["GitHub Token"].encode() + b' "}\n'])
    assert line == b'cut off \xff [redacted: GitHub Token] "}\n'


def test_a_key_of_many_lines_goes_whole_and_the_text_around_it_stays() -> None:
    redactor = Redactor()
    assert redactor.text(f"before\n{KEY}\nafter") == "before\n[redacted: Private Key]\nafter"
    assert "MIIE" not in redactor.text(KEY[:60])


@pytest.mark.parametrize("text", ["/" * 40_000, "eyJ" * 14_000, "aws" * 14_000, "://a" * 10_000])
def test_no_text_takes_the_square_of_its_length(text: str) -> None:
    """40 KB of slashes took 20 seconds: detect-secrets' own rule for NPM."""
    began = time.process_time()
    assert Redactor().text(text) == text
    assert time.process_time() - began < 10, "in pieces it takes a fraction of a second"


@pytest.mark.parametrize("before", [4096 - 20, 4096 * 3 - 1024 - 7, 10_000])
@pytest.mark.parametrize("length", [40, 6000])
def test_a_secret_is_found_whole_wherever_the_pieces_of_a_long_line_end(before: int, length: int) -> None:
    secret = "eyJhbGciOiJIUzI1NiJ9." + "aB3" * (length // 3)
    assert Redactor().text("é " * (before // 2) + secret + " after" * 900) == (
        "é " * (before // 2) + "[redacted: JSON Web Token]" + " after" * 900
    )
    text = "z " * (before // 2) + SECRETS["GitHub Token"] + " after" * 900
    assert SECRETS["GitHub Token"][4:] not in Redactor().text(text)


@pytest.mark.parametrize(
    "line",
    [
        rb'{"text":"\u0073k-ant-%s"}',
        rb'{"text":"line one\nsk-ant-%s"}',
        rb'{"text":"{\"key\":\"\\u0073k-ant-x\"} \u0073\u006B-ant-%s"}',
        rb'{"text":"sk-ant-%s","text":"said twice"}',
        rb'{"cut off":"\u0073k-ant-%s',
        b"[" * 5000 + rb'"\u0073k-ant-%s"' + b"]" * 5000,
        b"[" * 600 + rb'"sk-ant-%s"' + b"]" * 600,
        rb'{"aws_secret_key":"wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYab","of":"%s"}',
    ],
)
def test_no_spelling_of_a_line_hides_a_secret(line: bytes) -> None:
    redactor = Redactor()
    told = line.replace(b"%s", b"api03-abcdefghijklmnopqrst")
    (sent,) = redactor.lines([told + b"\n"])
    assert redactor.count >= 1
    assert sent.endswith(b"\n")
    assert b"[redacted: " in sent
    assert (b"abcdefghijklmnopqrst" in sent) is (b"aws" in line)
    assert b"wJalrXUtnFEMI" not in sent


def test_a_line_that_nests_thousands_deep_and_holds_none_stays_as_it_is() -> None:
    line = b"[" * 5000 + b'"a"' + b"]" * 5000 + b"\n"
    assert list(Redactor().lines([line])) == [line]
