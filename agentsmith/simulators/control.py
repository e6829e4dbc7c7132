"""The control plane under `/_control`: what tests do in Python, for a demo or a test in another process.

  GET    /_control                          this list, the operations, the kinds of faults
  POST   /_control/reset                    everything back to the beginning
  GET    /_control/requests                 the request log; DELETE empties it
  GET    /_control/unknown                  requests that no endpoint knew
  GET    /_control/clock                    the simulated time; POST {"advance": seconds}
  GET    /_control/faults                   armed faults; POST arms one, DELETE disarms all
  DELETE /_control/faults/{name}            disarm one
  POST   /_control/faults/{name}/release    let what waits in a slow fault go on
  GET    /_control/deliveries               the webhook log
  POST   /_control/deliveries/release       let late and swapped webhooks leave
  POST   /_control/deliveries/settle        answer when everything due has been sent
  POST   /_control/deliveries/{id}/attempts send one again with the same id
  POST   /_control/act/{operation}          do as a person does; the body holds the arguments: {"result": …}

There is no credential: serve on loopback only.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentsmith.simulators.faults import Fault
from agentsmith.simulators.frame import Simulator


def control_plane(simulator: Simulator) -> list[Route]:
    """The routes of the control plane for one simulator."""
    plane = _ControlPlane(simulator)
    return [
        Route("/_control", plane.describe, methods=["GET"]),
        Route("/_control/", plane.describe, methods=["GET"]),
        Route("/_control/reset", plane.reset, methods=["POST"]),
        Route("/_control/requests", plane.requests, methods=["GET", "DELETE"]),
        Route("/_control/unknown", plane.unknown, methods=["GET"]),
        Route("/_control/clock", plane.clock, methods=["GET", "POST"]),
        Route("/_control/faults", plane.faults, methods=["GET", "POST", "DELETE"]),
        Route("/_control/faults/{name}", plane.fault, methods=["DELETE"]),
        Route("/_control/faults/{name}/release", plane.release_fault, methods=["POST"]),
        Route("/_control/deliveries", plane.deliveries, methods=["GET"]),
        Route("/_control/deliveries/release", plane.release_deliveries, methods=["POST"]),
        Route("/_control/deliveries/settle", plane.settle, methods=["POST"]),
        Route("/_control/deliveries/{id:int}/attempts", plane.redeliver, methods=["POST"]),
        Route("/_control/act/{operation}", plane.act, methods=["POST"]),
    ]


def _problem(message: str, status: int = 400) -> Response:
    return JSONResponse({"message": message}, status_code=status)


async def _object(request: Request) -> dict[str, Any]:
    data = json.loads(await request.body() or b"{}")
    if not isinstance(data, dict):
        raise ValueError("the body must be a JSON object")
    return data


class _ControlPlane:
    """Each method is one endpoint."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    async def describe(self, _: Request) -> Response:
        operations = {
            name: {"about": inspect.getdoc(method), "parameters": str(inspect.signature(method))}
            for name, method in self.simulator.operations().items()
        }
        return JSONResponse(
            {
                "simulator": self.simulator.name,
                "about": (__doc__ or "").strip().splitlines(),
                "operations": operations,
                "fault_kinds": sorted(self.simulator.faults.kinds),
            }
        )

    async def reset(self, _: Request) -> Response:
        self.simulator.reset()
        return JSONResponse({})

    async def requests(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.simulator.forget_requests()
        return JSONResponse([entry.to_json() for entry in self.simulator.requests])

    async def unknown(self, _: Request) -> Response:
        return JSONResponse([entry.to_json() for entry in self.simulator.unknown_requests])

    async def clock(self, request: Request) -> Response:
        if request.method == "POST":
            try:
                self.simulator.clock.advance(float((await _object(request))["advance"]))
            except (KeyError, TypeError, ValueError) as problem:
                return _problem(f'wanted {{"advance": seconds}}: {problem}')
        return JSONResponse({"now": self.simulator.clock.now()})

    async def faults(self, request: Request) -> Response:
        if request.method == "POST":
            try:
                fault = self.simulator.inject(Fault.from_json(await _object(request)))
            except (TypeError, ValueError) as problem:
                return _problem(str(problem))
            return JSONResponse(fault.to_json(), status_code=201)
        if request.method == "DELETE":
            self.simulator.clear_faults()
        return JSONResponse([fault.to_json() for fault in self.simulator.faults])

    async def fault(self, request: Request) -> Response:
        if self.simulator.remove_fault(request.path_params["name"]):
            return JSONResponse({})
        return _problem("no such fault", 404)

    async def release_fault(self, request: Request) -> Response:
        found = [f for f in self.simulator.faults if f.name == request.path_params["name"]]
        for fault in found:
            fault.release()
        return JSONResponse({}) if found else _problem("no such fault", 404)

    async def deliveries(self, _: Request) -> Response:
        return JSONResponse([delivery.to_json() for delivery in self.simulator.outbox.log])

    async def release_deliveries(self, _: Request) -> Response:
        self.simulator.release_webhooks()
        return JSONResponse({})

    async def settle(self, _: Request) -> Response:
        await self.simulator.outbox.settle()
        return JSONResponse({})

    async def redeliver(self, request: Request) -> Response:
        try:
            again = self.simulator.outbox.redeliver(request.path_params["id"])
        except LookupError as problem:
            return _problem(str(problem), 404)
        return JSONResponse(again.to_json(), status_code=202)

    async def act(self, request: Request) -> Response:
        method = self.simulator.operations().get(request.path_params["operation"])
        if method is None:
            return _problem(f"no such operation; known: {', '.join(self.simulator.operations())}", 404)
        try:
            arguments = await _object(request)
            inspect.signature(method).bind(**arguments)
            result = method(**arguments)
        except (LookupError, TypeError, ValueError) as problem:
            return _problem(f"{type(problem).__name__}: {problem}")
        return JSONResponse({"result": result})
