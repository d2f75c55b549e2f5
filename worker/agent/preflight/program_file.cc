#include "worker/agent/preflight/program_file.h"

#include <array>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace ringmaster::agent {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
#error "determine the machine architecture"
#endif

constexpr std::size_t kBeginning = 4096;       // bytes read of a script or a program
constexpr std::size_t kNamesWithin = 4 << 20;  // bytes searched for names of libraries or modules

std::string NameOfMachine(int machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "arm64";
    case EM_386:
      return "32-bit x86";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    case EM_RISCV:
      return "riscv";
    default:
      return "machine " + std::to_string(machine);
  }
}

std::string BeginningOf(const std::string& file, std::size_t size) {
  std::string bytes(size, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

// Returns the T at offset `place`, or nothing if the bytes end before it does.
template <typename T>
std::optional<T> At(const std::string& bytes, std::size_t place) {
  if (place > bytes.size() || bytes.size() - place < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof value);
  return value;
}

std::optional<Elf64_Ehdr> ElfHeader(const std::string& beginning) {
  return beginning.starts_with(ELFMAG) ? At<Elf64_Ehdr>(beginning, 0) : std::nullopt;
}

}  // namespace

ProgramFile::ProgramFile(std::string path)
    : path_(std::move(path)), beginning_(BeginningOf(path_, kBeginning)) {}

std::string ThisMachine() { return NameOfMachine(kMachine); }

std::string ProgramFile::OtherMachine() const {
  const std::optional<Elf64_Ehdr> header = ElfHeader(beginning_);
  return !header || header->e_machine == kMachine ? "" : NameOfMachine(header->e_machine);
}

std::vector<std::string> ProgramFile::Interpreters() const {
  if (!beginning_.starts_with("#!")) return {};
  std::istringstream words(beginning_.substr(2, beginning_.find('\n') - 2));
  std::string interpreter;
  std::string argument;
  words >> interpreter >> argument;
  if (interpreter.empty()) return {};
  const bool by_name = std::filesystem::path(interpreter).filename() == "env" &&
                       !argument.empty() && argument.front() != '-';
  return by_name ? std::vector{interpreter, argument} : std::vector{interpreter};
}

// The program headers and the loader's name are near the beginning of the file.
std::string ProgramFile::Loader() const {
  const std::optional<Elf64_Ehdr> header = ElfHeader(beginning_);
  if (!header || header->e_machine != kMachine) return {};
  for (std::size_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = At<Elf64_Phdr>(beginning_, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return {};
    if (segment->p_type != PT_INTERP) continue;
    if (segment->p_offset >= beginning_.size()) return {};
    const std::string name = beginning_.substr(segment->p_offset, segment->p_filesz);
    return name.substr(0, name.find('\0'));
  }
  return {};
}

std::string ProgramFile::NeededMpi() const {
  if (!beginning_.starts_with(ELFMAG)) return {};
  const std::string bytes = BeginningOf(path_, kNamesWithin);
  for (const std::string_view library : {"libmpi.so", "libmpich.so", "libmpi_cxx.so"}) {
    // NUL characters separate the names in the file.
    const std::size_t at = bytes.find(std::string(1, '\0').append(library));
    if (at != std::string::npos) return bytes.c_str() + at + 1;
  }
  return {};
}

std::string ImportedModule(const std::string& script,
                           const std::vector<std::string_view>& modules) {
  if (!script.ends_with(".py")) return {};
  std::istringstream lines(BeginningOf(script, kNamesWithin));
  for (std::string line; std::getline(lines, line);) {
    for (const std::string_view module : modules) {
      for (const std::string_view word : {"import ", "from "}) {
        if (line.starts_with(std::string(word).append(module))) return std::string(module);
      }
    }
  }
  return {};
}

}  // namespace ringmaster::agent
