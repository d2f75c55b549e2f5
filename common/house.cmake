# Settings of the whole build: language, warnings, sanitizers, ccache, linker. All of our libraries link `house_flags`.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Make imported targets global, so that each folder can use the targets that another folder has found.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(house_flags INTERFACE)
target_include_directories(house_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(house_flags INTERFACE RINGMASTER_VERSION="${PROJECT_VERSION}" JSON_USE_IMPLICIT_CONVERSIONS=0)
# The code that nvcc generates for the host compiler does not compile with -pedantic.
target_compile_options(house_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>
  $<$<AND:$<BOOL:${RINGMASTER_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>
  $<$<AND:$<BOOL:${RINGMASTER_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings -Xcompiler=-Werror>
  # g++ 12 warns about overlaps in "text" + std::string that do not exist (GCC bug 105329).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  # Warnings about locks (common/base/mutex.h) are errors even without RINGMASTER_WERROR.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety -Werror=thread-safety>)

# Unity builds compile a target's sources as one source, in a third of the time. In such a build, g++ warns about
# types in a source's unnamed namespace as if they were in a header. The unity sources of CMake before 3.30 contain
# absolute paths, so ccache has no hits when the repository is built in another folder; ringmaster_unite() writes
# unity sources with relative paths instead.
set(RINGMASTER_UNITY ${CMAKE_UNITY_BUILD})
set(CMAKE_UNITY_BUILD OFF)
if(RINGMASTER_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(house_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# ringmaster_unite(FOLDER): makes unity sources for all targets of the folder and its subfolders. Call it once all targets are
# defined. Sources with their own options are compiled separately.
function(ringmaster_unite folder)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    ringmaster_unite(${below})
  endforeach()
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    set(alone "")
    set(includes "")
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE)
      get_source_file_property(options ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
      if(options OR NOT source MATCHES "\\.cc$")
        list(APPEND alone ${source})
      else()
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
        string(APPEND includes "#include \"${source}\"\n")
      endif()
    endforeach()
    if(includes MATCHES "\n#")
      get_target_property(binary_folder ${target} BINARY_DIR)
      set(united ${binary_folder}/${target}.united.cc)
      file(CONFIGURE OUTPUT ${united} CONTENT "${includes}" @ONLY)
      set_target_properties(${target} PROPERTIES SOURCES "${united};${alone}")
      target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
    endif()
  endforeach()
endfunction()

# Builds with sanitizers are not optimised, except for libraries that request it (the trainer's arithmetic): with sanitizers and
# optimisation, our templates take almost twice as long to compile.
if(RINGMASTER_SANITIZE)
  add_compile_options(-fsanitize=${RINGMASTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${RINGMASTER_SANITIZE})
  # UBSan's check of dynamic types uses a pipe to test whether memory can be read; TSan reports this as a race.
  if(RINGMASTER_SANITIZE MATCHES thread)
    add_compile_options(-fno-sanitize=vptr)
  endif()
  # Asio's handler queue uses fences and locks. GCC's thread sanitizer supports the locks, but warns that it does not support
  # the fences.
  if(RINGMASTER_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)
  endif()
endif()

# Static programs need no loader and no libraries in the root file system in which they run (worker/tools).
if(RINGMASTER_STATIC)
  set(OPENSSL_USE_STATIC_LIBS ON)
  add_compile_options(-Os -ffunction-sections -fdata-sections)
  add_link_options(-static-pie -Wl,--gc-sections)
endif()

# lld links the big sanitized binaries several times faster than the default linker.
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()

# ringmaster_library(NAME SOURCES... LINK libs...): defines a static library; each folder has one.
function(ringmaster_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC house_flags ${ARG_LINK})
endfunction()

# ringmaster_paths(TARGET NAME PATH [NAME PATH]...): defines each NAME as PATH, relative to the build folder (tests/paths.h).
function(ringmaster_paths target)
  while(ARGN)
    list(POP_FRONT ARGN name path)
    target_compile_definitions(${target} PUBLIC ${name}="$<PATH:RELATIVE_PATH,${path},${PROJECT_BINARY_DIR}>")
  endwhile()
endfunction()

# ringmaster_test(NAME SOURCES... LINK libs... LABELS labels...): defines a GoogleTest program with one ctest entry, so that the program
# starts only once for all cases, because the start is slow with sanitizers.
function(ringmaster_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE house_flags ${ARG_LINK} GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
    set_property(GLOBAL APPEND PROPERTY RINGMASTER_UNIT_TESTS ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  # AddressSanitizer keeps 256 MiB of freed memory by default, which takes a quarter of the CPU time of trainer_torch_test. Options in
  # the caller's ASAN_OPTIONS come later in the list, so they override this one.
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0"
    ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=path_list_prepend:quarantine_size_mb=16")
endfunction()
