"""Adapters for the training loops of other libraries, one module per library.

Import the adapter before creating objects of the library. Although several ranks run, each library must treat its
process as the only one, because the job sums the gradients over the ranks and forms the worlds.
"""

import os

from .. import _report_errors

_report_errors()
for _name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
    os.environ.pop(_name, None)
