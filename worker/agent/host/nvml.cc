#include "worker/agent/host/nvml.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <dlfcn.h>
#include <optional>
#include <thread>
#include <utility>

namespace ringmaster::agent {
namespace {

// Parts of NVIDIA's nvml.h. Newer drivers support them, because NVML renames changed functions.
using Return = int;
using Handle = void*;

constexpr Return kSuccess = 0;
constexpr Return kNotSupported = 3;
constexpr Return kNoPermission = 4;
constexpr Return kTimeout = 10;
constexpr unsigned long long kXidEvents = 0x8;  // nvmlEventTypeXidCriticalError
constexpr unsigned int kWholeGpu = 0xFFFFFFFFU;
constexpr unsigned int kMigEnabled = 1;

struct Memory {
  unsigned long long total, free, used;
};

struct EventData {
  Handle device;
  unsigned long long type;
  unsigned long long data;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

struct Api {
  Return (*init)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*count)(unsigned int*) = nullptr;
  Return (*by_index)(unsigned int, Handle*) = nullptr;
  Return (*uuid)(Handle, char*, unsigned int) = nullptr;
  Return (*memory)(Handle, void* /*Memory*/) = nullptr;
  Return (*event_set)(Handle*) = nullptr;
  Return (*register_events)(Handle, unsigned long long, Handle) = nullptr;
  Return (*event_wait)(Handle, void* /*EventData*/, unsigned int) = nullptr;
  // Null in drivers without MIG.
  Return (*mig_mode)(Handle, unsigned int*, unsigned int*) = nullptr;
  Return (*most_instances)(Handle, unsigned int*) = nullptr;
  Return (*instance)(Handle, unsigned int, Handle*) = nullptr;
  Return (*instance_id)(Handle, unsigned int*) = nullptr;
};

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Finds the functions of `api`. Returns the name of the first missing function; empty if all exist.
std::string FindAll(void* library, Api& api) {
  if (!Find(library, "nvmlInit_v2", api.init)) return "nvmlInit_v2";
  if (!Find(library, "nvmlErrorString", api.error_string)) return "nvmlErrorString";
  if (!Find(library, "nvmlDeviceGetCount_v2", api.count)) return "nvmlDeviceGetCount_v2";
  if (!Find(library, "nvmlDeviceGetHandleByIndex_v2", api.by_index)) {
    return "nvmlDeviceGetHandleByIndex_v2";
  }
  if (!Find(library, "nvmlDeviceGetUUID", api.uuid)) return "nvmlDeviceGetUUID";
  if (!Find(library, "nvmlDeviceGetMemoryInfo", api.memory)) return "nvmlDeviceGetMemoryInfo";
  if (!Find(library, "nvmlEventSetCreate", api.event_set)) return "nvmlEventSetCreate";
  if (!Find(library, "nvmlDeviceRegisterEvents", api.register_events)) {
    return "nvmlDeviceRegisterEvents";
  }
  if (!Find(library, "nvmlEventSetWait_v2", api.event_wait)) return "nvmlEventSetWait_v2";
  const bool mig = Find(library, "nvmlDeviceGetMigMode", api.mig_mode) &&
                   Find(library, "nvmlDeviceGetMaxMigDeviceCount", api.most_instances) &&
                   Find(library, "nvmlDeviceGetMigDeviceHandleByIndex", api.instance) &&
                   Find(library, "nvmlDeviceGetGpuInstanceId", api.instance_id);
  if (!mig) api.mig_mode = nullptr;
  return "";
}

// A GPU or MIG device that is watched.
struct Watched {
  Handle handle = nullptr;
  Handle gpu = nullptr;  // the GPU itself, or the GPU of the MIG device
  unsigned int instance = kWholeGpu;
  std::string uuid{};
  bool lost = false;  // the loss of this device was reported
};

class LoadedNvml final : public Nvml {
 public:
  explicit LoadedNvml(const Api& api) : api_(api) {}

  Result<std::vector<GpuDevice>> Devices() override {
    unsigned int count = 0;
    if (const Return counted = api_.count(&count); counted != kSuccess) {
      return Error{ErrorKind::kUnavailable, Words(counted)};
    }
    std::vector<GpuDevice> devices;
    for (unsigned int index = 0; index < count; ++index) {
      Handle gpu = nullptr;
      const Return found = api_.by_index(index, &gpu);
      if (found == kNoPermission) continue;  // the GPU belongs to another container
      if (found != kSuccess) {
        devices.push_back({"", Words(found)});
      } else {
        Add(gpu, devices);
      }
    }
    if (api_.event_set(&events_) != kSuccess) events_ = nullptr;
    for (const Watched& one : watched_) {
      // Ignore the error of a GPU without events: failing calls also reveal its faults.
      if (events_ != nullptr) static_cast<void>(api_.register_events(one.gpu, kXidEvents, events_));
    }
    return devices;
  }

  std::vector<GpuTrouble> Await(std::chrono::milliseconds limit) override {
    EventData event{};
    const Return waited =
        events_ == nullptr
            ? kNotSupported
            : api_.event_wait(events_, &event, static_cast<unsigned int>(limit.count()));
    if (waited == kTimeout) return {};
    if (waited == kSuccess) return Reported(event);
    // If a GPU is lost, every wait fails at once, and NVML does not report which GPU was lost.
    std::vector<GpuTrouble> found = FindLost();
    if (found.empty()) std::this_thread::sleep_for(limit);
    return found;
  }

 private:
  std::string Words(Return result) const { return api_.error_string(result); }

  // Returns why the device does not answer; empty if it answers.
  std::string FaultOf(Handle device) const {
    Memory memory{};
    const Return asked = api_.memory(device, &memory);
    const bool answers = asked == kSuccess || asked == kNotSupported || asked == kNoPermission;
    return answers ? "" : Words(asked);
  }

  std::string UuidOf(Handle device) const {
    std::array<char, 96> text{};
    return api_.uuid(device, text.data(), text.size()) == kSuccess ? text.data() : "";
  }

  void AddOne(Watched one, std::vector<GpuDevice>& devices) {
    one.uuid = UuidOf(one.handle);
    std::string fault = FaultOf(one.handle);
    if (one.uuid.empty() && fault.empty()) fault = "it has no UUID";
    one.lost = !fault.empty();
    devices.push_back({one.uuid, std::move(fault)});
    watched_.push_back(std::move(one));
  }

  void Add(Handle gpu, std::vector<GpuDevice>& devices) {
    unsigned int mode = 0;
    unsigned int pending = 0;
    const bool divided = api_.mig_mode != nullptr &&
                         api_.mig_mode(gpu, &mode, &pending) == kSuccess && mode == kMigEnabled;
    if (!divided) return AddOne({.handle = gpu, .gpu = gpu}, devices);
    unsigned int most = 0;
    if (api_.most_instances(gpu, &most) != kSuccess) return;
    for (unsigned int index = 0; index < most; ++index) {
      Watched one{.gpu = gpu};
      if (api_.instance(gpu, index, &one.handle) != kSuccess) continue;
      if (api_.instance_id(one.handle, &one.instance) != kSuccess) one.instance = kWholeGpu;
      AddOne(std::move(one), devices);
    }
  }

  std::vector<GpuTrouble> Reported(const EventData& event) const {
    std::vector<GpuTrouble> troubles;
    if (event.type != kXidEvents) return troubles;
    for (const Watched& one : watched_) {
      const bool meant = one.gpu == event.device &&
                         (event.gpu_instance == kWholeGpu || one.instance == kWholeGpu ||
                          one.instance == event.gpu_instance);
      if (meant) troubles.push_back({.uuid = one.uuid, .xid = static_cast<int>(event.data)});
    }
    return troubles;
  }

  std::vector<GpuTrouble> FindLost() {
    std::vector<GpuTrouble> troubles;
    for (Watched& one : watched_) {
      if (one.lost) continue;
      std::string fault = FaultOf(one.handle);
      if (fault.empty()) continue;
      one.lost = true;
      troubles.push_back({.uuid = one.uuid, .fault = std::move(fault)});
    }
    return troubles;
  }

  const Api api_;
  Handle events_ = nullptr;
  std::vector<Watched> watched_;
};

}  // namespace

Result<std::unique_ptr<Nvml>> Nvml::Open(const std::string& library) {
  // The library is never unloaded, because it may have started threads.
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return Error{ErrorKind::kNotFound, dlerror()};
  Api api;
  if (const std::string missing = FindAll(loaded, api); !missing.empty()) {
    return Error{ErrorKind::kNotFound, library + " has no " + missing};
  }
  if (const Return initialised = api.init(); initialised != kSuccess) {
    return Error{ErrorKind::kUnavailable, api.error_string(initialised)};
  }
  return std::unique_ptr<Nvml>(new LoadedNvml(api));
}

}  // namespace ringmaster::agent
