// A fake NVML library, which tests load instead of libnvidia-ml.so.1. It reports the GPUs listed in
// the file that FAKE_NVML names. It reads the file at every call, so that a test can break a GPU by
// rewriting the file. GPUs are in the order of the PCI bus. Each line is one of these:
//
//   gpu UUID              a working GPU
//   lost UUID             a GPU that fell off the bus after NVML had found it
//   gone                  a GPU that fell off the bus earlier: NVML knows only that there was one
//   foreign               a GPU of another container
//   mig UUID INSTANCE     a MIG instance of the `gpu` above it
//   xid NUMBER UUID       an event, reported once, of the GPU or MIG instance with this UUID
//   hang                  the driver hangs when it reads this line
//
// As in NVML, all calls before nvmlInit_v2 fail, and buffers that are too small are rejected. If a
// GPU is off the bus, every wait ends at once without naming the GPU, whose handle does not change.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kTimeout = 10;
constexpr int kGpuIsLost = 15;

struct Device {
  std::string kind;  // gpu, lost, gone or foreign; an instance has the kind of its GPU
  std::string uuid;
  unsigned int instance = 0xFFFFFFFFU;
  std::vector<Device> instances{};
};

struct Event {
  int xid = 0;
  std::string uuid;
};

struct State {
  std::vector<Device> devices{};
  std::vector<Event> events{};
};

State Read() {
  State state;
  const char* const name = std::getenv("FAKE_NVML");
  std::ifstream file(name == nullptr ? "" : name);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "hang") {
      for (;;) pause();
    }
    if (kind == "xid") {
      Event& event = state.events.emplace_back();
      words >> event.xid >> event.uuid;
    } else if (kind == "mig" && !state.devices.empty()) {
      Device& gpu = state.devices.back();
      Device& instance = gpu.instances.emplace_back(Device{.kind = gpu.kind, .uuid = {}});
      words >> instance.uuid >> instance.instance;
    } else {
      Device& device = state.devices.emplace_back(Device{.kind = kind, .uuid = {}});
      words >> device.uuid;
    }
  }
  return state;
}

bool g_initialized = false;
std::size_t g_events_told = 0;

// A handle points to a copy of the UUID, which is never freed.
void* HandleOf(const std::string& uuid) {
  static std::map<std::string, std::string> names;
  return names.try_emplace(uuid, uuid).first->second.data();
}

// Returns the device or instance with this handle; null if there is none.
const Device* Find(const State& state, const void* handle) {
  for (const Device& device : state.devices) {
    if (HandleOf(device.uuid) == handle) return &device;
    for (const Device& instance : device.instances) {
      if (HandleOf(instance.uuid) == handle) return &instance;
    }
  }
  return nullptr;
}

struct EventData {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  static_cast<void>(Read());
  g_initialized = true;
  return kSuccess;
}

const char* nvmlErrorString(int result) {
  return result == kGpuIsLost ? "GPU is lost" : "some other error";
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  if (!g_initialized) return kUninitialized;
  *count = static_cast<unsigned int>(Read().devices.size());
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** handle) {
  if (!g_initialized) return kUninitialized;
  const State state = Read();
  if (index >= state.devices.size()) return kInvalidArgument;
  const Device& device = state.devices[index];
  if (device.kind == "gone") return kGpuIsLost;
  if (device.kind == "foreign") return kNoPermission;
  *handle = HandleOf(device.uuid);
  return kSuccess;
}

int nvmlDeviceGetUUID(void* handle, char* text, unsigned int room) {
  const State state = Read();
  const Device* const device = Find(state, handle);
  if (device == nullptr) return kInvalidArgument;
  if (room < 80 || room <= device->uuid.size()) return kInsufficientSize;
  std::strcpy(text, device->uuid.c_str());
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* handle, void* /*memory*/) {
  const State state = Read();
  const Device* const device = Find(state, handle);
  if (device == nullptr) return kInvalidArgument;
  return device->kind == "gpu" ? kSuccess : kGpuIsLost;
}

int nvmlDeviceGetMigMode(void* handle, unsigned int* mode, unsigned int* pending) {
  const State state = Read();
  const Device* const device = Find(state, handle);
  if (device == nullptr) return kInvalidArgument;
  *mode = *pending = device->instances.empty() ? 0 : 1;
  return kSuccess;
}

int nvmlDeviceGetMaxMigDeviceCount(void* /*handle*/, unsigned int* count) {
  *count = 7;
  return kSuccess;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned int index, void** instance) {
  const State state = Read();
  const Device* const device = Find(state, handle);
  if (device == nullptr) return kInvalidArgument;
  if (index >= device->instances.size()) return kNotFound;
  *instance = HandleOf(device->instances[index].uuid);
  return kSuccess;
}

int nvmlDeviceGetGpuInstanceId(void* handle, unsigned int* id) {
  const State state = Read();
  const Device* const device = Find(state, handle);
  if (device == nullptr) return kInvalidArgument;
  *id = device->instance;
  return kSuccess;
}

int nvmlEventSetCreate(void** events) {
  *events = &g_events_told;
  return kSuccess;
}

int nvmlDeviceRegisterEvents(void* handle, unsigned long long /*types*/, void* events) {
  return events == &g_events_told && Find(Read(), handle) != nullptr ? kSuccess : kInvalidArgument;
}

int nvmlEventSetWait_v2(void* /*events*/, void* data, unsigned int millis) {
  auto* const event = static_cast<EventData*>(data);
  for (unsigned int waited = 0; waited <= millis; waited += 10) {
    const State state = Read();
    if (g_events_told < state.events.size()) {
      const Event& next = state.events[g_events_told++];
      *event = {.device = HandleOf(next.uuid),
                .type = 8,
                .data = static_cast<unsigned long long>(next.xid),
                .gpu_instance = 0xFFFFFFFFU,
                .compute_instance = 0xFFFFFFFFU};
      for (const Device& gpu : state.devices) {
        for (const Device& instance : gpu.instances) {
          if (instance.uuid != next.uuid) continue;
          event->device = HandleOf(gpu.uuid);
          event->gpu_instance = instance.instance;
        }
      }
      return kSuccess;
    }
    for (const Device& device : state.devices) {
      if (device.kind == "lost") return kGpuIsLost;
    }
    usleep(10'000);
  }
  return kTimeout;
}

}  // extern "C"
