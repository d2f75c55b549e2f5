"""The factor by which tests multiply their limits, because a machine may be busy (tests/run.sh)."""

import os

PATIENCE = int(os.environ.get("RINGMASTER_PATIENCE", "1"))
