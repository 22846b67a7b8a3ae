"""Connects with Python's own TLS: tls.py PORT CA VERSION ALPN [CERTIFICATE KEY]; prints what was agreed and the first answer."""

import json
import socket
import ssl
import sys

port, authority, version, alpn, *identity = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.minimum_version = context.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
context.set_alpn_protocols([alpn])
if identity:
    context.load_cert_chain(*identity)
with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as plain:
    with context.wrap_socket(plain, server_hostname="localhost") as tls:
        if alpn == "h2":
            tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            frame = tls.recv(9)
            answer = "settings" if frame[3] == 4 else f"frame {frame[3]}"
        else:
            tls.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            answer = tls.recv(64).split(b" ")[1].decode()
        print(json.dumps({"version": tls.version(), "alpn": tls.selected_alpn_protocol(), "answer": answer}))
