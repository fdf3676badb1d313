"""Recall in the client: what it adds to the server's one call.

``calls`` and ``flow`` ask, ``restrict`` says what may be seen, ``stages`` and ``hooks`` come in
between, ``parallel`` and ``many`` ask in other ways, ``result_cache`` keeps answers, ``telemetry``
and ``after`` do what follows without being waited for; ``methods`` is what both clients offer.
"""
