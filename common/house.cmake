# House rules of the build: language, warnings, sanitizers, ccache, linker. Every library of ours links `house_flags`.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Imported targets are seen by all folders, whichever found them first.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(house_flags INTERFACE)
target_include_directories(house_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(house_flags INTERFACE RINGMASTER_VERSION="${PROJECT_VERSION}" JSON_USE_IMPLICIT_CONVERSIONS=0)
# What nvcc makes of a CUDA source for the host compiler is not pedantic C++.
target_compile_options(house_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>
  $<$<AND:$<BOOL:${RINGMASTER_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>
  $<$<AND:$<BOOL:${RINGMASTER_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings -Xcompiler=-Werror>
  # g++ 12 sees overlaps in "text" + std::string that are not there (GCC bug 105329).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  # Locks are checked (common/base/mutex.h), whatever RINGMASTER_WERROR says.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety -Werror=thread-safety>)

# Unity builds compile a target's sources as one, in a third of the time, but take types of a source's unnamed namespace for
# those of a header. CMake's own sources for it (before 3.30) name ours by absolute path, so that ccache in another folder knows
# none of them: ringmaster_unite() makes them instead.
set(RINGMASTER_UNITY ${CMAKE_UNITY_BUILD})
set(CMAKE_UNITY_BUILD OFF)
if(RINGMASTER_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(house_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# ringmaster_unite(FOLDER): for all targets of the folder and those below it, once all are there. Sources with options of their own
# stay alone.
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

# Sanitized builds are not optimised, except where a library asks for it (the trainer's arithmetic): sanitized and
# optimised, our templates take almost twice the time to compile.
if(RINGMASTER_SANITIZE)
  add_compile_options(-fsanitize=${RINGMASTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${RINGMASTER_SANITIZE})
  # UBSan's check of dynamic types looks whether memory can be read by means of a pipe, which TSan takes for a race.
  if(RINGMASTER_SANITIZE MATCHES thread)
    add_compile_options(-fno-sanitize=vptr)
  endif()
  # Asio's handler queue has fences, which GCC's thread sanitizer does not see; its locks it does.
  if(RINGMASTER_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)
  endif()
endif()

# Static programs need nothing of the root that they run in: no loader, no library (worker/tools).
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

# ringmaster_library(NAME SOURCES... LINK libs...): one static library per folder.
function(ringmaster_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC house_flags ${ARG_LINK})
endfunction()

# ringmaster_test(NAME SOURCES... LINK libs... LABELS labels...): one GoogleTest program, one ctest entry per program
# (a program starts once, whatever the number of cases: sanitized start-up is what costs).
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
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
endfunction()
