"""What the client tells its observer, as lines of the log."""

from __future__ import annotations

from collections.abc import Callable

from client import events
from client.events import ClientEvent
from client.protocol.ids import Identity, identity_from_rank
from client.protocol.profiles import Profile
from harness.reference_frontend.log import CLIENT, COORDINATOR, Bare, Log
from harness.reference_frontend.watch import Watch

_COORDINATOR_ERRORS = frozenset({"UnexpectedCoordinatorOutput", "UnsupportedCoordinatorEngineId"})
_CLOSED = "ClientClosed"


class ClientLog:
    """An observer of a client.

    Args:
        log: where lines go.
        profile: the release whose texts are used.
        watch: over the same client.
        on_health: called once, when the client has failed.
    """

    def __init__(
        self, log: Log, profile: Profile, watch: Watch, on_health: Callable[[], None]
    ) -> None:
        self._log = log
        self._watch = watch
        self._profile = profile
        self._on_health = on_health
        self._identities: dict[int, bytes] = {}
        self._cause = ""

    def __call__(self, event: ClientEvent) -> None:
        """Write the line of an event, if it has one."""
        if isinstance(event, events.WaveNoticeHandled):  # by far the most frequent, in a flood
            self._notice(event)
            return
        match event:
            case events.EngineConnected():
                self._identities[event.engine] = event.identity
                self._log(
                    "debug",
                    "received input registration from engine",
                    target="vllm_engine_core_client::transport",
                    actual_id=self._engine_id(event.engine),
                )
            case events.RequestRegistered():
                self._log(
                    "debug",
                    "registered request to engine",
                    target=CLIENT,
                    request_id=event.request_id,
                    engine_id=self._engine_id(event.engine),
                )
            case events.RequestReleased():
                self._released(event)
            case events.OutputDropped():
                self._log(
                    "debug",
                    "dropping output for inactive request",
                    target=CLIENT,
                    request_id=event.request_id,
                )
            case events.AbortFailed():
                self._log(
                    "warn",
                    "failed to auto-abort request streams",
                    target=CLIENT,
                    error=Bare(event.error),
                )
            case events.UtilityReplyDropped():
                self._reply_dropped(event.call_id)
            case events.FirstRequestHandled():
                self._first_request(event)
            case events.HealthFailed():
                self._failed(event)
            case _:
                pass

    def _engine_id(self, rank: int) -> Bare:
        identity = self._identities.get(rank)
        if identity is None:
            identity = Identity(identity_from_rank(rank))
        return Bare(f"EngineId({identity.hex()})")

    def _reply_dropped(self, call_id: int) -> None:
        """Warn of a reply that nobody was registered for.

        One that found a waiter whose caller is gone is not unexpected: it goes without a word,
        as in the releases that leak waiters.
        """
        if self._watch.was_expected(call_id):
            return
        text = "dropping output for unexpected utility call"
        self._log("warn", text, target=CLIENT, call_id=call_id)

    def _released(self, event: events.RequestReleased) -> None:
        lines = {
            "finished": ("debug", "request completed via final output"),
            "stream-closed": ("warn", "request stream closed unexpectedly"),
            "client-closed": ("warn", "request encountered an error"),
            "auto-aborted": ("info", "auto-aborting request due to dropped stream"),
        }
        if event.cause not in lines:
            return
        level, text = lines[event.cause]
        fields: dict[str, object] = {"request_id": event.request_id}
        if event.cause == "client-closed":
            fields["error"] = Bare(self._cause)
        self._log(level, text, target=CLIENT, **fields)

    def _first_request(self, event: events.FirstRequestHandled) -> None:
        self._log(
            "debug",
            "starting DP wave after first request",
            target=COORDINATOR,
            wave=event.request_wave,
            current_wave=event.wave_after,
            target_engine=event.engine,
        )

    def _notice(self, event: events.WaveNoticeHandled) -> None:
        if not self._log.lets(COORDINATOR, "debug"):
            return
        if event.notice == "complete" and event.wave_after > event.wave_before:
            self._log(
                "debug",
                "DP wave finished; pausing engines",
                target=COORDINATOR,
                wave=event.wave,
                current_wave=event.wave_after,
            )
        elif event.broadcast:
            older = self._profile.frontend_starts_waves
            why = "after stale-wave notification" if older else "on notification from engine"
            self._log(
                "debug",
                f"starting DP wave {why}",
                target=COORDINATOR,
                wave=event.wave,
                engine_index=event.engine,
            )

    def _failed(self, event: events.HealthFailed) -> None:
        if not event.first:
            return
        self._cause = event.message
        if event.error == _CLOSED:
            return
        if event.error == "EngineCoreDead":
            self._log("warn", "received ENGINE_CORE_DEAD sentinel from engine", target=CLIENT)
        ours = event.error in _COORDINATOR_ERRORS
        who = "coordinator runner" if ours else "output dispatcher"
        self._log("warn", f"{who} exiting with error", target=CLIENT, error=Bare(event.message))
        self._on_health()
