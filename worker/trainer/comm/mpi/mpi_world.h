#pragma once

// A job whose ranks mpirun started, and which reduces over MPI: for machines with MPI and without
// Ringmaster. Its ranks neither come nor go; a rank that is lost ends the job, as MPI has it.

#include <memory>
#include <string>

#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/left_behind.h"
#include "worker/trainer/membership_source.h"

namespace ringmaster::trainer {

// MPI, from its initialisation to its end. One object at most in a process's life.
class MpiWorld {
 public:
  virtual ~MpiWorld() = default;

  // All that mpirun started; without a store, which nobody needs.
  virtual World world() const = 0;

  virtual Result<std::unique_ptr<Communicator>> Connect(Deadline deadline,
                                                        LeftBehind& left_behind) = 0;

  // Ends MPI together with all other ranks. REQUIRES: no communicator is left. A process that ends
  // without it has failed: mpirun then ends the others.
  virtual void Finish() = 0;
};

// The version of the MPI that is built in, as it names itself; empty where none is.
std::string MpiVersion();

// Whether mpirun started this process.
bool UnderMpirun();

// kInvalid: no MPI in this build, or not started by mpirun, and what to do.
Result<std::unique_ptr<MpiWorld>> StartMpi();

}  // namespace ringmaster::trainer
