from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from app.cli.dev.ground import check_ports, check_room, own_home
from app.errors import StartError
from tests.ports import free_port


def test_a_home_is_held_by_one_process_and_free_again_when_that_is_killed(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    code = "import sys,pathlib,signal; from app.cli.dev.ground import own_home\n"
    code += "with own_home(pathlib.Path(sys.argv[1])): print('held', flush=True); signal.pause()"
    holder = subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StartError, match=f"process {holder.pid}") as refused, own_home(home):
            pass
        assert refused.value.exit_code == 75
        assert "GRAPHKEEP_HOME" in refused.value.message
    finally:
        holder.kill()
        holder.communicate()
    with own_home(home):
        assert home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_made_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="GRAPHKEEP_HOME") as refused, own_home(tmp_path / "file" / "home"):
        pass
    assert refused.value.exit_code == 73


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port_is_named_with_the_variable_that_moves_it(host: str) -> None:
    with socket.socket() as other:
        other.bind((host, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=rf"Port {port} is taken.*GRAPHKEEP_HTTPS_PORT") as refused:
            check_ports({"GRAPHKEEP_HTTP_PORT": free_port(), "GRAPHKEEP_HTTPS_PORT": port})
        assert refused.value.exit_code == 69


def test_two_equal_ports_are_refused() -> None:
    port = free_port()
    with pytest.raises(StartError, match="different ports"):
        check_ports({"GRAPHKEEP_HTTP_PORT": port, "GRAPHKEEP_HTTPS_PORT": port})


def test_a_port_whose_last_connection_is_closing_is_free() -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()  # this side closes first: its port stays in TIME_WAIT
    check_ports({"GRAPHKEEP_HTTP_PORT": port})


def test_a_full_disk_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**40, 2**40 - 1000, 1000))
    with pytest.raises(StartError, match=r"0 MiB left.*Nothing was started") as refused:
        check_room(tmp_path)
    assert refused.value.exit_code == 73
    monkeypatch.undo()
    check_room(Path(os.path.curdir))
