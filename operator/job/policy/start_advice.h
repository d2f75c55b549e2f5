#pragma once

// Tells users why a Pod does not start and how to fix it, based on the messages of the scheduler,
// the kubelet and the container runtime. The texts are shown in conditions and not used for
// decisions. Pure functions.

#include <string>

#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/views.h"

namespace ringmaster::job {

// Returns why no node fits, without the scheduler's preemption results.
std::string WhyUnschedulable(const std::string& scheduler_message);

// Returns why a waiting container does not start, as the predicate of a sentence about its Pod. For
// an image, it has the image and the registry's or network's error without the repetitions of the
// kubelet and the runtime, and without the ports of a query, which differ in each attempt.
std::string WhyNotStarted(const ContainerView& container);

// Return advice that starts with "; "; empty if the message is unknown.
// For a Pod that cannot be scheduled. `nodes`: what Observe() found for it.
std::string HowToSchedule(const PodView& pod, const NodesSeen& nodes, const api::TrainingJob& job);
// `spec_image`: the image in the job's spec; empty: the installation's worker image.
std::string HowToPull(const ContainerView& container, const std::string& spec_image);
// For a Pod that waits for a volume. `ns`: its namespace.
std::string HowToMount(const std::string& kubelet_message, const std::string& ns);

// Returns why a container cannot be created, with advice, in a job that has failed because of it.
std::string WhyNotCreated(const std::string& kubelet_message);

}  // namespace ringmaster::job
