#pragma once

// The program ringmaster-audit: checks whether the audit logs of a job's ranks prove that no step
// was lost or repeated. report.h lists its exit codes.

namespace ringmaster::audit {

// Returns the exit code.
int Main(int argc, char** argv);

}  // namespace ringmaster::audit
