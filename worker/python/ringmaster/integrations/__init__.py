"""Adapters for the training loops of other libraries, one module per library.

Import it before the library's own objects are made: several ranks run, but each library must take its process for the only
one, since the job sums gradients and decides on worlds.
"""

import os

from .. import _report_errors

_report_errors()
for _name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
    os.environ.pop(_name, None)
