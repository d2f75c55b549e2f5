#pragma once

// What a person can do about a Pod that does not start, read from the words of the scheduler, the
// kubelet and the container runtime. The texts follow those words in conditions and decide
// nothing. Pure.

#include <string>

#include "operator/job/model/views.h"

namespace ringmaster::job {

// Why no node fits, without what the scheduler tried after that.
std::string WhyUnschedulable(const std::string& scheduler_message);

// Each begins with "; ", or is empty where the words are not known.
std::string HowToSchedule(const std::string& scheduler_message);
// `spec_image`: of the job; empty: it has the installation's worker image.
std::string HowToPull(const ContainerView& container, const std::string& spec_image);
std::string HowToMount(const std::string& kubelet_message);

}  // namespace ringmaster::job
