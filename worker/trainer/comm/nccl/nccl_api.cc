#include "worker/trainer/comm/nccl/nccl_api.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>

namespace ringmaster::trainer {
namespace {

constexpr char kLibrary[] = "libnccl.so.2";
constexpr int kOldest = 21800;

// Loads functions and records the name of the first missing function.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Signature>
  void Load(std::function<Signature>& function, const char* name) {
    void* const symbol = ::dlsym(library_, name);
    if (symbol == nullptr && missing_.empty()) missing_ = name;
    if (symbol != nullptr) function = reinterpret_cast<Signature*>(symbol);
  }

  template <typename Signature>
  void LoadIf(bool wanted, std::function<Signature>& function, const char* name) {
    void* const symbol = wanted ? ::dlsym(library_, name) : nullptr;
    if (symbol != nullptr) function = reinterpret_cast<Signature*>(symbol);
  }

  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

// Returns whether CollNet (InfiniBand's SHARP) may be used. With CollNet, registrations belong to
// an NCCL thread, whose state ncclCommAbort frees before it undoes them (seen in 2.20.5 to 2.30.7).
// Without CollNet, in-place reductions register multicast memory, which is not affected.
bool CollNetWanted() {
  const std::optional<std::string> wanted = NcclSetting("NCCL_COLLNET_ENABLE");
  return wanted && *wanted != "0";
}

std::optional<std::string> SettingOf(const std::string& name, const std::string& file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with(name + '=')) return line.substr(name.size() + 1);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> NcclSetting(const std::string& name, const std::string& site) {
  if (const char* const value = std::getenv(name.c_str())) return value;
  const char* const file = std::getenv("NCCL_CONF_FILE");
  const char* const home = std::getenv("HOME");
  std::optional<std::string> setting;
  if (file != nullptr && *file != '\0') {
    setting = SettingOf(name, file);
  } else if (home != nullptr) {
    setting = SettingOf(name, std::string(home) + "/.nccl.conf");
  }
  return setting ? setting : SettingOf(name, site);
}

Result<NcclApi> LoadNccl() {
  const std::optional<std::string> blocking = NcclSetting("NCCL_COMM_BLOCKING");
  if (blocking && std::strtol(blocking->c_str(), nullptr, 0) == 1) {
    return Error{
        ErrorKind::kInvalid,
        "NCCL_COMM_BLOCKING=1 makes NCCL calls block without a limit, so ranks could not continue "
        "after losing one; remove it from the environment or the NCCL configuration file"};
  }
  // The library is never closed, because NCCL's threads may run until the process exits.
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorKind::kUnavailable, std::string("NCCL cannot be loaded: ") + ::dlerror()};
  }
  NcclApi api;
  Symbols symbols(library);
  std::function<NcclResult(int*)> get_version;
  symbols.Load(get_version, "ncclGetVersion");
  symbols.Load(api.error_string, "ncclGetErrorString");
  symbols.Load(api.get_unique_id, "ncclGetUniqueId");
  symbols.Load(api.comm_init, "ncclCommInitRankConfig");
  symbols.Load(api.comm_abort, "ncclCommAbort");
  symbols.Load(api.comm_async_error, "ncclCommGetAsyncError");
  symbols.Load(api.all_reduce, "ncclAllReduce");
  symbols.Load(api.reduce_scatter, "ncclReduceScatter");
  symbols.Load(api.all_gather, "ncclAllGather");
  symbols.Load(api.broadcast, "ncclBroadcast");
  symbols.Load(api.reduce, "ncclReduce");
  symbols.Load(api.send, "ncclSend");
  symbols.Load(api.receive, "ncclRecv");
  symbols.Load(api.group_start, "ncclGroupStart");
  symbols.Load(api.group_end, "ncclGroupEnd");
  if (!symbols.missing().empty()) {
    return Error{ErrorKind::kUnavailable,
                 "the loaded NCCL does not provide " + symbols.missing() + "; use a newer NCCL"};
  }
  if (get_version(&api.version) != NcclResult::kSuccess || api.version < kOldest) {
    return Error{ErrorKind::kUnavailable, "NCCL " + NcclVersionText(api.version) + " is too old: " +
                                              NcclVersionText(kOldest) + " or newer is required"};
  }
  symbols.LoadIf(api.version >= kNcclShrinkSince, api.comm_shrink, "ncclCommShrink");
  symbols.LoadIf(api.version >= kNcclRevokeSince, api.comm_revoke, "ncclCommRevoke");
  symbols.LoadIf(api.version >= kNcclGrowSince, api.comm_unique_id, "ncclCommGetUniqueId");
  symbols.LoadIf(api.version >= kNcclGrowSince, api.comm_grow, "ncclCommGrow");
  const bool registers = api.version >= kNcclRegisterSince && !CollNetWanted();
  symbols.LoadIf(registers, api.memory_alloc, "ncclMemAlloc");
  symbols.LoadIf(registers, api.comm_register, "ncclCommRegister");
  return api;
}

NcclResult StateOf(const NcclApi& nccl, NcclComm comm) {
  NcclResult state = NcclResult::kSuccess;
  const NcclResult asked = nccl.comm_async_error(comm, &state);
  return asked == NcclResult::kSuccess ? state : asked;
}

std::string NcclVersionText(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

NcclType NcclTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
      return NcclType::kInt8;
    case ElementType::kUint8:
      return NcclType::kUint8;
    case ElementType::kInt32:
      return NcclType::kInt32;
    case ElementType::kUint32:
      return NcclType::kUint32;
    case ElementType::kInt64:
      return NcclType::kInt64;
    case ElementType::kUint64:
      return NcclType::kUint64;
    case ElementType::kFloat16:
      return NcclType::kFloat16;
    case ElementType::kBFloat16:
      return NcclType::kBFloat16;
    case ElementType::kFloat32:
      return NcclType::kFloat32;
    case ElementType::kFloat64:
      return NcclType::kFloat64;
  }
  return NcclType::kUint8;
}

NcclOp NcclOpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return NcclOp::kSum;
    case ReduceOp::kProduct:
      return NcclOp::kProduct;
    case ReduceOp::kMin:
      return NcclOp::kMin;
    case ReduceOp::kMax:
      return NcclOp::kMax;
  }
  return NcclOp::kSum;
}

}  // namespace ringmaster::trainer
