#pragma once

// Paths that CMake passes to tests and figures (ringmaster_paths() in common/house.cmake). They are
// relative to the build folder, because ccache cannot reuse another clone's objects if absolute
// paths are in options.

#include <filesystem>
#include <string>

namespace ringmaster {

// Returns the build folder that contains this program.
inline std::string BuildFolder() {
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  while (folder.has_relative_path() && !std::filesystem::exists(folder / "CMakeCache.txt")) {
    folder = folder.parent_path();
  }
  return folder.string();
}

// Returns the absolute path of `relative`, which is relative to the build folder.
inline std::string FromBuild(const std::string& relative) {
  return (std::filesystem::path(BuildFolder()) / relative).lexically_normal().string();
}

}  // namespace ringmaster
