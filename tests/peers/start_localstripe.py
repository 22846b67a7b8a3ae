"""Starts localstripe on 127.0.0.1 only; its own command listens on every interface.

Besides its own paths, `POST /_config/refunds/{id}/fail` lets a refund fail later on and has localstripe tell so: it signs and delivers the event itself.

Usage: start_localstripe.py [PORT]. Prints the URL once it listens; ends when its standard input is closed.
It ignores idempotency keys, so each POST that reaches it is one refund more.
"""

import asyncio
import os
import sys
import threading

from aiohttp import web
from localstripe.resources import Event, Refund, Store
from localstripe.server import app
from localstripe.webhooks import schedule_webhook

# The state file has one fixed name for the whole machine: servers would read and overwrite each other's.
Store.dump_to_disk = lambda self: None


async def fail(request: web.Request) -> web.Response:
    refund = Refund._api_retrieve(request.match_info["id"])
    refund.status = "failed"
    schedule_webhook(Event("refund.failed", refund))
    return web.json_response({"id": refund.id, "status": refund.status})


app.router.add_post("/_config/refunds/{id}/fail", fail)


def end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def main(port: int) -> None:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}", flush=True)
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
