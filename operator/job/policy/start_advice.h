#pragma once

// What a person can do about a Pod that does not start, read from the words of the scheduler, the
// kubelet and the container runtime. The texts follow those words in conditions and decide
// nothing. Pure.

#include <string>

#include "operator/job/model/views.h"

namespace ringmaster::job {

// Returns why no node fits, without the scheduler's preemption results.
std::string WhyUnschedulable(const std::string& scheduler_message);

// Each starts with "; ", or is empty if the message is unknown. `role`: of the Pod.
std::string HowToSchedule(const std::string& scheduler_message, Role role);
// `spec_image` is the job's; empty: the installation's worker image.
std::string HowToPull(const ContainerView& container, const std::string& spec_image);
std::string HowToMount(const std::string& kubelet_message);

}  // namespace ringmaster::job
