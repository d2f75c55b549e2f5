#pragma once

// Jobs for the figures without nodes (B3, B4, backlog): an operator with the rights of
// install.yaml against an etcd and API server of its own.

#include <memory>
#include <string>

#include "common/base/result.h"
#include "tests/integration/harness/control_plane.h"
#include "tests/integration/harness/operator_process.h"

namespace ringmaster::bench {

// With TrainingJobs installed, and a default profile for all.
Result<std::unique_ptr<testing::ControlPlane>> StartControlPlane();

// Ready when this returns. `flags` as on its command line.
Result<std::unique_ptr<testing::OperatorProcess>> StartOperator(
    const testing::ControlPlane& plane, const std::string& program, const std::string& identity,
    std::vector<std::string> flags = {});

std::string JobsPath(const std::string& ns);

Result<void> PostJob(testing::ApiClient& admin, const std::string& ns, const std::string& name,
                     int workers);

// Creates "job-0" … in a namespace that has a FakeKubelet, and waits until all are Running.
Result<void> RunJobs(testing::ApiClient& admin, const std::string& ns, int jobs, int workers);

}  // namespace ringmaster::bench
