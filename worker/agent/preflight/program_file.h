#pragma once

// Inspects a program file: its machine architecture, its interpreter or loader, and the MPI library
// that it needs. Used by the checks. If the file cannot be read, all results are empty.

#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::agent {

class ProgramFile {
 public:
  explicit ProgramFile(std::string path);

  const std::string& path() const { return path_; }

  // Returns the machine that the file is built for if it is not this machine; otherwise empty.
  std::string OtherMachine() const;
  // The programs that a script's first line names: the interpreter's path, or env's path and the
  // name that env looks up in PATH. Empty for any other file.
  std::vector<std::string> Interpreters() const;
  // The dynamic loader (PT_INTERP). Empty for a static program and for files that are not ELF.
  std::string Loader() const;
  // The MPI library that the program needs; empty if it needs none.
  std::string NeededMpi() const;

 private:
  std::string path_;
  std::string beginning_;
};

// The name of the machine that this agent is built for.
std::string ThisMachine();

// The first of `modules` that the Python script imports unconditionally; empty for any other
// file.
std::string ImportedModule(const std::string& script, const std::vector<std::string_view>& modules);

}  // namespace ringmaster::agent
