#include "worker/trainer/comm/mpi/mpi_world.h"

#include <array>
#include <optional>

#include <mpi.h>

#include "worker/trainer/comm/mpi/mpi_communicator.h"
#include "worker/trainer/comm/mpi/mpi_types.h"

namespace ringmaster::trainer {
namespace {

class OpenMpiWorld final : public MpiWorld {
 public:
  explicit OpenMpiWorld(World world) : world_(std::move(world)) {}

  World world() const override { return world_; }

  Result<std::unique_ptr<Communicator>> Connect(Deadline deadline,
                                                LeftBehind& left_behind) override {
    return std::unique_ptr<Communicator>(
        std::make_unique<MpiCommunicator>(world_, deadline, left_behind));
  }

  void Finish() override { MPI_Finalize(); }

 private:
  const World world_;
};

// The communicator's thread calls MPI, one call at a time, but not the thread that began it.
Result<void> Initialise() {
  int provided = 0;
  if (auto done = MpiChecked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
                             "MPI_Init_thread");
      !done.ok()) {
    return done;
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    return Error{ErrorKind::kInvalid,
                 "--mpi: this MPI cannot be called by more than one thread "
                 "(MPI_THREAD_SERIALIZED); leave --mpi out"};
  }
  return MpiChecked(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                    "MPI_Comm_set_errhandler");
}

int RanksOnHost() {
  MPI_Comm host = MPI_COMM_NULL;
  int ranks = 1;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &ranks);
  MPI_Comm_free(&host);
  return ranks;
}

}  // namespace

std::string MpiVersion() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);  // may be called before MPI_Init
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

Result<std::unique_ptr<MpiWorld>> StartMpi() {
  if (!UnderMpirun()) {
    return Error{ErrorKind::kInvalid,
                 "--mpi trains with the ranks that mpirun starts: mpirun -n 4 ringmaster-train "
                 "--mpi …; leave --mpi out for a job of Ringmaster's or a single process"};
  }
  if (auto begun = Initialise(); !begun.ok()) return begun.error();
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  world.ranks_on_host = RanksOnHost();
  return std::unique_ptr<MpiWorld>(std::make_unique<OpenMpiWorld>(std::move(world)));
}

}  // namespace ringmaster::trainer
