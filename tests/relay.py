"""Stand for a program of `tests.forked`: import little, pass on signals, and end as it ends."""

import marshal
import os
import signal
import socket
import sys


def main(address: str, *arguments: str) -> None:
    asked = marshal.dumps((arguments, os.getcwd(), dict(os.environ)))
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(asked)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: server.send(bytes([number])))
        os.closerange(0, 3)
        code = int.from_bytes(server.recv(4) or b"\1", "big", signed=True)
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
