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

  // Returns the machine architecture of the file if this machine has another; otherwise empty.
  std::string OtherMachine() const;
  // Returns the programs in a script's first line: the interpreter's path, or env's path and the
  // name that env looks up in PATH. Empty for any other file.
  std::vector<std::string> Interpreters() const;
  // Returns the dynamic loader (PT_INTERP); empty for static programs and files other than ELF.
  std::string Loader() const;
  // Returns the MPI library that the program needs; empty if it needs none.
  std::string NeededMpi() const;

 private:
  std::string path_;
  std::string beginning_;
};

// Returns the name of the machine architecture that this agent is built for.
std::string ThisMachine();

// Returns the first of `modules` that the Python script imports unconditionally; empty if there is
// none or the file is not a Python script.
std::string ImportedModule(const std::string& script, const std::vector<std::string_view>& modules);

}  // namespace ringmaster::agent
