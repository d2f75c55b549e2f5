#pragma once

// Audits the logs that a test's ranks wrote to a folder, as ringmaster-audit does.

#include <string>

#include <gtest/gtest.h>

#include "worker/audit/read_logs.h"
#include "worker/audit/report.h"

namespace ringmaster::trainer {

// Returns the report of the audit. `steps` is the number of steps of the run.
inline audit::Report AuditLogsIn(const std::string& folder, int64_t steps) {
  audit::Audit audit;
  const auto files = audit::FindLogs({folder});
  EXPECT_TRUE(files.ok());
  for (const std::string& file : *files) {
    const auto read = audit::ReadLog(file, audit);
    EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
  }
  return audit.Conclude(steps);
}

}  // namespace ringmaster::trainer
