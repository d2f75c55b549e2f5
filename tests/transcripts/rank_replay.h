#pragma once

// Plays the agent's side of a rank's transcript to the trainer's own client (AgentMembership), has
// it do what the transcript says the rank does, and compares what it says. A second implementation
// of the rank's side needs a player like this one.

#include <string>

#include "tests/transcripts/transcript.h"

namespace ringmaster::transcripts {

// What went otherwise than the transcript has it; empty: nothing.
std::string ReplayRank(const Transcript& transcript);

}  // namespace ringmaster::transcripts
