from __future__ import annotations

import base64
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import KeySet

from app.errors import DatabaseUnavailable
from app.oauth.jwks import BadSignature, KeyRing, SigningKey, new_signing_key

KEY = new_signing_key()
RING = KeyRing([KEY])
PRIVATE_MEMBERS = {"d", "p", "q", "dp", "dq", "qi", "oth"}


def test_the_published_set_verifies_our_tokens_for_any_other_library() -> None:
    token = RING.sign("at+jwt", {"sub": "someone", "name": "Grüße"})
    published = KeySet.import_key_set(json.loads(json.dumps(RING.document())))
    decoded = jwt.decode(token, published, algorithms=["RS256"])
    assert decoded.claims == {"sub": "someone", "name": "Grüße"}
    assert decoded.header == {"alg": "RS256", "typ": "at+jwt", "kid": KEY.kid}


def test_the_published_set_holds_no_private_member() -> None:
    (published,) = RING.document()["keys"]
    assert PRIVATE_MEMBERS.isdisjoint(published)
    assert published["use"] == "sig"
    assert published["alg"] == "RS256"
    assert published["kid"] == KEY.kid
    assert len(base64.urlsafe_b64decode(published["n"] + "==")) == 256


def test_a_new_key_signs_only_once_every_replica_can_know_it() -> None:
    now = time.time()
    later = new_signing_key(active_from=now + 10)
    ring = KeyRing([KEY, later])
    assert ring.current(now).kid == KEY.kid
    assert ring.current(now + 10).kid == later.kid
    header, _ = ring.verify(RING.sign("at+jwt", {}))
    assert header["kid"] == KEY.kid


def test_a_retired_key_verifies_and_does_not_sign() -> None:
    retired = SigningKey(KEY.kid, KEY.key, KEY.created, KEY.active_from, retired=time.time())
    successor = new_signing_key()
    ring = KeyRing([retired, successor])
    assert ring.current().kid == successor.kid
    ring.verify(RING.sign("at+jwt", {}))


def test_a_ring_of_public_halves_cannot_sign() -> None:
    public = SigningKey.load(KEY.public(), created=KEY.created, active_from=KEY.active_from)
    ring = KeyRing([public])
    ring.verify(RING.sign("at+jwt", {}))
    with pytest.raises(DatabaseUnavailable):
        ring.sign("at+jwt", {})


def test_a_key_comes_back_from_its_private_form() -> None:
    again = SigningKey.load(json.loads(KEY.private()), created=KEY.created, active_from=KEY.active_from)
    RING.verify(KeyRing([again]).sign("at+jwt", {}))


@given(st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}"))
def test_no_text_makes_the_ring_fail_otherwise_than_by_refusing(text: str) -> None:
    with pytest.raises(BadSignature):
        RING.verify(text)


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5c", "enc", "zip"]),
        st.sampled_from(["RS256", "none", "HS256", KEY.kid, ["b64"], ["exp"], False, True, None, 1, {}, ""]),
    )
    | st.sampled_from([[], "text", 1, None])
)
def test_no_header_makes_the_ring_fail_otherwise_than_by_refusing(header: object) -> None:
    _, payload, signature = RING.sign("at+jwt", {"sub": "someone"}).split(".")
    encoded = base64.urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("=")
    with pytest.raises(BadSignature):
        RING.verify(f"{encoded}.{payload}.{signature}")


def test_claims_that_are_no_object_are_refused() -> None:
    from joserfc import jws

    header = {"alg": "RS256", "kid": KEY.kid, "typ": "at+jwt"}
    for payload in ("[]", "1", '"text"', "not json", "[" * 5000):
        with pytest.raises(BadSignature):
            RING.verify(jws.serialize_compact(header, payload, KEY.key, algorithms=["RS256"]))
