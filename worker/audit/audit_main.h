#pragma once

// ringmaster-audit: says whether the audit logs of a job's ranks prove that no step was lost or
// repeated. Exit codes: report.h.

namespace ringmaster::audit {

// Returns the exit code.
int Main(int argc, char** argv);

}  // namespace ringmaster::audit
