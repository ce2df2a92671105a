"""What hostile or broken clients send: the corpus of the connection tests.

Each payload is a list of pieces, sent one after the other. `HOST` is replaced by the server's own host and port,
so that the payload gets past the Host check wherever the fault is meant to lie behind it.
"""

from __future__ import annotations

from typing import Final

WEBSOCKET: Final = (
    b"GET /health HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bKdPyn3u98cTfZJSh4TNeQ==\r\n"
)
HIDDEN: Final = b"0\r\n\r\nGET /wait HTTP/1.1\r\nHost: HOST\r\n\r\n"
HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HTTP2_SETTINGS: Final = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def get(*headers: bytes, path: bytes = b"/health", method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> bytes:
    lines = [method + b" " + path + b" " + version, b"Host: HOST", *headers, b"", b""]
    return b"\r\n".join(lines)


def post(body: bytes, *headers: bytes, path: bytes = b"/echo") -> bytes:
    """A POST whose framing headers are given by the caller."""
    return get(b"Content-Type: application/json", *headers, path=path, method=b"POST") + body


def json_post(body: bytes) -> bytes:
    return post(body, b"Content-Length: %d" % len(body))


def chunked(body: bytes, *headers: bytes) -> bytes:
    return post(body, b"Transfer-Encoding: chunked", *headers)


def http2_headers(block: bytes) -> bytes:
    """Preface, SETTINGS and one HEADERS frame (END_STREAM, END_HEADERS) on stream 1."""
    return HTTP2 + HTTP2_SETTINGS + len(block).to_bytes(3, "big") + b"\x01\x05\x00\x00\x00\x01" + block


PAYLOADS: Final[dict[str, list[bytes]]] = {
    # no HTTP at all
    "nothing": [b""],
    "one NUL": [b"\0"],
    "one newline": [b"\n"],
    "64 KiB of 0xff": [b"\xff" * 65536],
    "64 KiB of newlines": [b"\r\n" * 32768],
    "1 MiB without a newline": [b"a" * 2**20],
    "TLS client hello": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2],
    "SSH banner": [b"SSH-2.0-OpenSSH_9.6\r\n"],
    "SMTP": [b"EHLO there\r\n", b"QUIT\r\n"],
    "HTTP/0.9": [b"GET /\r\n"],
    # request line
    "half a request line": [b"GE"],
    "no end of headers": [b"GET /health HTTP/1.1\r\nHost: HOST\r\n"],
    "method with 0xff": [get(method=b"G\xffT")],
    "method with a separator": [get(method=b"GE(T")],
    "method of 30 KiB": [get(method=b"G" * 30000)],
    "unknown method": [get(method=b"BREW")],
    "TRACE": [get(method=b"TRACE")],
    "CONNECT": [b"CONNECT example.com:443 HTTP/1.1\r\nHost: HOST\r\n\r\n"],
    "CONNECT with bytes behind": [b"CONNECT /health HTTP/1.1\r\nHost: HOST\r\n\r\n\x16\x03\x01"],
    "no target": [b"GET  HTTP/1.1\r\nHost: HOST\r\n\r\n"],
    "tabs between": [b"GET\t/health\tHTTP/1.1\r\nHost: HOST\r\n\r\n"],
    "version 2.0": [get(version=b"HTTP/2.0")],
    "version 9.9": [get(version=b"HTTP/9.9")],
    "version in lower case": [get(version=b"http/1.1")],
    "version without number": [get(version=b"HTTP/")],
    "asterisk": [get(path=b"*")],
    "absolute URL": [get(path=b"http://example.com/health")],
    "broken absolute URL": [get(path=b"http://[")],
    "only a query": [get(path=b"?x=1")],
    "two slashes": [get(path=b"//example.com/health")],
    "dots upwards": [get(path=b"/../../../../etc/passwd")],
    "encoded dots": [get(path=b"/%2e%2e/%2e%2e/etc/passwd")],
    "encoded NUL": [get(path=b"/app.js%00.html")],
    "bad percent signs": [get(path=b"/%ff%fe%zz?%ff=%zz&%")],
    "0xff in the path": [get(path=b"/\xff\xfe")],
    "NUL in the path": [get(path=b"/\0")],
    "path of 5000 letters": [get(path=b"/" + b"a" * 5000)],
    "path of 60 KiB": [get(path=b"/" + b"a" * 60000)],
    # headers
    "no Host": [b"GET /health HTTP/1.1\r\n\r\n"],
    "two Hosts": [get(b"Host: HOST")],
    "Host with 0xff": [b"GET /health HTTP/1.1\r\nHost: \xff\xfe[::\r\n\r\n"],
    "empty Host": [b"GET /health HTTP/1.1\r\nHost:\r\n\r\n"],
    "header without colon": [get(b"nonsense")],
    "space before the colon": [get(b"X : 1")],
    "empty header name": [get(b": 1")],
    "folded header": [get(b"X: 1\r\n 2")],
    "NUL in a header": [get(b"X: \0")],
    "lone CR in a header": [get(b"X: a\rY: b")],
    "0xff in a header": [get(b"X-\xff: 1")],
    "one header of 60 KiB": [get(b"X: " + b"a" * 60000)],
    "4000 headers": [get(*[b"X%d: 1" % n for n in range(4000)])],
    "endless header": [b"GET /health HTTP/1.1\r\nX: ", *[b"a" * 10000] * 20],
    "newlines of Unix": [b"GET /health HTTP/1.1\nHost: HOST\n\n"],
    # length of the body
    "negative length": [post(b"", b"Content-Length: -5")],
    "length with plus": [post(b"12345", b"Content-Length: +5")],
    "length in hex": [post(b"12345", b"Content-Length: 0x5")],
    "length of 23 digits": [post(b"abc", b"Content-Length: 99999999999999999999999")],
    "length of 1 TB": [post(b"abc", b"Content-Length: 1000000000000")],
    "two lengths": [post(b"12345", b"Content-Length: 5", b"Content-Length: 6")],
    "list of lengths": [post(b"12345", b"Content-Length: 5, 6")],
    "length and chunked": [post(HIDDEN, b"Content-Length: 4", b"Transfer-Encoding: chunked")],
    "chunked and length": [post(HIDDEN, b"Transfer-Encoding: chunked", b"Content-Length: 4")],
    "body too short": [post(b"12", b"Content-Length: 5")],
    "body too long": [post(b"[1, 2, 3, 4]", b"Content-Length: 3")],
    "encoding gzip": [post(b"x", b"Transfer-Encoding: gzip, chunked")],
    "encoding identity": [post(b"x", b"Transfer-Encoding: identity")],
    "encoding xchunked": [post(b"0\r\n\r\n", b"Transfer-Encoding: xchunked")],
    "encoding chunked twice": [post(b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked")],
    "encoding with a tab": [post(b"0\r\n\r\n", b"Transfer-Encoding:\tchunked")],
    "encoding with a vertical tab": [post(b"0\r\n\r\n", b"Transfer-Encoding: \x0bchunked")],
    "chunked in HTTP/1.0": [
        get(b"Transfer-Encoding: chunked", path=b"/echo", method=b"POST", version=b"HTTP/1.0") + b"0\r\n\r\n"
    ],
    "chunk size no hex": [chunked(b"ZZ\r\nabc\r\n")],
    "chunk size negative": [chunked(b"-1\r\nabc\r\n")],
    "chunk size of 30 digits": [chunked(b"f" * 30 + b"\r\nabc\r\n")],
    "chunk extension of 30 KiB": [chunked(b"1;" + b"a" * 30000 + b"\r\n1\r\n0\r\n\r\n")],
    "chunk without end": [chunked(b"3\r\nabcdef\r\n0\r\n\r\n")],
    "chunk late and bad": [chunked(b"1\r\n1\r\n"), b"ZZ\r\n"],
    "chunk with bad trailer": [chunked(b"1\r\n1\r\n0\r\nnonsense\r\n\r\n")],
    "5000 chunks of one byte": [chunked(b"1\r\n1\r\n" * 5000 + b"0\r\n\r\n")],
    "chunked text": [
        get(b"Content-Type: text/plain", b"Transfer-Encoding: chunked", method=b"POST"),
        b"5\r\nhello\r\n",
    ],
    # ways out of HTTP/1.1
    "websocket": [WEBSOCKET + b"\r\n"],
    "websocket and one byte": [WEBSOCKET + b"\r\nx"],
    "websocket and a frame": [WEBSOCKET + b"\r\n", b"\x81\x85\x00\x00\x00\x00hello"],
    "websocket, bad protocol": [WEBSOCKET + b"Sec-WebSocket-Protocol: \xff\xfe\r\n\r\n"],
    "websocket, bad extension": [WEBSOCKET + b"Sec-WebSocket-Extensions: \xff\xfe\r\n\r\n"],
    "websocket, no key": [get(b"Connection: upgrade", b"Upgrade: websocket")],
    "h2c without settings": [get(b"Connection: upgrade", b"Upgrade: h2c")],
    "h2c with bad settings": [get(b"Connection: upgrade, http2-settings", b"Upgrade: h2c", b"HTTP2-Settings: !!!!")],
    "h2c with short settings": [get(b"Connection: upgrade, http2-settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMA")],
    "HTTP/2 preface": [HTTP2],
    "HTTP/2 and rubbish": [HTTP2 + b"\x00\x00\x05\x09garbage\xff\xff\xff"],
    "HTTP/2, path with 0xff": [http2_headers(b"\x82\x86\x44\x02/\xff\x41\x01x")],
    "HTTP/2, method with 0xff": [http2_headers(b"\x42\x02G\xff\x84\x86\x41\x01x")],
    "HTTP/2, CONNECT": [http2_headers(b"\x42\x07CONNECT\x41\x01x")],
    "upgrade to TLS": [get(b"Connection: upgrade", b"Upgrade: TLS/1.0")],
    # several requests at once
    "five requests": [get() * 5],
    "300 requests": [get() * 300],
    "stray newline": [get() + b"\r\n"],
    "rubbish behind": [get() + b"\xff\xfe\xfd"],
    "request behind a stream": [get(path=b"/quiet") + get()],
    "200 KiB behind a waiting request": [get(path=b"/wait") + b"\0" * 200_000],
    "request hidden in a body": [json_post(b"1") + get(path=b"/wait")],
    # expectations
    "expect and silence": [post(b"", b"Content-Length: 5", b"Expect: 100-continue")],
    "expect and too much": [post(b"", b"Content-Length: 5", b"Expect: 100-continue"), b"123456GET / HTTP/1.1\r\n"],
    "expect a miracle": [post(b"", b"Content-Length: 0", b"Expect: miracle")],
    # JSON
    "JSON 50,000 deep": [json_post(b"[" * 50000 + b"]" * 50000)],
    "JSON with 5000 digits": [json_post(b"1" * 5000)],
    "JSON with NaN": [json_post(b"[NaN]")],
    "JSON with a key twice": [json_post(b'{"a": 1, "a": 2}')],
    "JSON with half a pair": [json_post(b'["\\ud800"]')],
    "JSON with a mark": [json_post(b"\xef\xbb\xbf[]")],
    "JSON in UTF-16": [json_post("[]".encode("utf-16"))],
    "JSON with 0xff": [json_post(b'["\xff"]')],
    "JSON cut off": [json_post(b'{"a": [1, 2')],
    "JSON with an overflow": [json_post(b"1e999")],
    "no JSON": [json_post(b"\0\0\0\0")],
    # routes that fail
    "route that fails": [get(path=b"/crash")],
    "stream that fails": [get(path=b"/crash-late")],
    "answer that is not read": [get(path=b"/flood")],
}
