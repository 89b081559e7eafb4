"""A network of its own, with the loopback interface alone. Loaded by the keeper: standard library only, Linux only."""

from __future__ import annotations

import fcntl
import socket
import struct

# From linux/sockios.h and linux/if.h.
_GET_CONF, _GET_FLAGS, _SET_FLAGS, _SET_ADDRESS, _UP = 0x8912, 0x8913, 0x8914, 0x8916, 1
_ENTRY = 40


def addresses() -> list[str]:
    """The IPv4 addresses of this machine's interfaces: programs meet at them by the machine's own name."""
    import array

    buffer = array.array("B", bytes(_ENTRY * 128))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
            size = struct.unpack("iP", fcntl.ioctl(s, _GET_CONF, request))[0]
    except OSError:
        return []
    data = buffer.tobytes()[:size]
    found = [socket.inet_ntoa(data[i + 20 : i + 24]) for i in range(0, len(data), _ENTRY)]
    return [a for a in dict.fromkeys(found) if not a.startswith("127.")]


def raise_loopback(own: list[str]) -> None:
    """Bring ``lo`` up and let the machine's own addresses mean it.

    Raises:
        OSError: the interface cannot be brought up.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(s, _GET_FLAGS, request))[1]
        fcntl.ioctl(s, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
        for number, address in enumerate(own[:16], 1):
            name = f"lo:{number}".encode()
            try:
                fcntl.ioctl(
                    s, _SET_ADDRESS, struct.pack("16sHH4s16x", name, socket.AF_INET, 0, socket.inet_aton(address))
                )
            except OSError:
                continue
