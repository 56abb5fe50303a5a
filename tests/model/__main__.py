"""Play the model against the engine for a while: `python -m tests.model [--seconds 300] [--steps 80] [--seed N]`.

Starts a Valkey of its own. Each round has a seed; a failure ends it and tells the seed and the shortest play found
that fails.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets

import structlog

from app.core.clock import mono
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.valkey import Valkey
from tests.model.play import machine_on, play

EXAMPLES = 50
"""Plays in one round."""


def main() -> None:
    """Rounds until the time is over; exits by the exception of the play that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seed", type=int, help="of the first round; without it another one each time")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
    stores = PrivateStores(data_dir=None)
    stores.start()
    try:
        with asyncio.Runner() as runner:
            valkey = runner.run(Valkey.connect(stores.valkey_url))
            try:
                machine, end, rounds = machine_on(runner, valkey, "model:"), mono() + args.seconds, 0
                while mono() < end:
                    print(f"seed {seed + rounds}", flush=True)
                    play(machine, examples=EXAMPLES, steps=args.steps, seed=seed + rounds)
                    rounds += 1
                print(f"{rounds * EXAMPLES} plays, engine and model agree")
            finally:
                runner.run(valkey.close())
    finally:
        stores.stop()


if __name__ == "__main__":
    main()
