#pragma once

// Tells users how to fix a Pod that does not start, based on the messages of the scheduler, the
// kubelet and the container runtime. The advice is appended to those messages in conditions and
// not used for decisions. Pure functions.

#include <string>

#include "operator/job/model/views.h"

namespace ringmaster::job {

// Returns why no node fits, without the scheduler's preemption results.
std::string WhyUnschedulable(const std::string& scheduler_message);

// Return advice that starts with "; "; empty if the message is unknown. `role`: the Pod's role.
std::string HowToSchedule(const std::string& scheduler_message, Role role);
// `spec_image`: the image in the job's spec; empty: the installation's worker image.
std::string HowToPull(const ContainerView& container, const std::string& spec_image);
// Returns advice for a container that cannot be created.
std::string HowToRun(const std::string& kubelet_message);
std::string HowToMount(const std::string& kubelet_message);

}  // namespace ringmaster::job
