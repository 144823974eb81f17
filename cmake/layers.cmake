# taper_library(name SOURCES files... LINK targets...): static library, or an interface one while it has no sources.
function(taper_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} ${scope} ${arg_LINK})
endfunction()

# taper_layer(name targets...): taper_<name> of src/<name>/**.cpp.
function(taper_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  taper_library(taper_${name} SOURCES ${sources} LINK ${ARGN})
  if(sources AND name STREQUAL "core")
    target_compile_definitions(taper_core PRIVATE TAPER_VERSION="${PROJECT_VERSION}")
  elseif(sources AND name STREQUAL "kernels")
    # Where it lowers the counts of InstructionCount.*; it takes half as long again to compile.
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/attention_train.cpp
      ${CMAKE_SOURCE_DIR}/src/kernels/taper_norm.cpp
      PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
    # SSE2, AVX2 and AVX-512: the steps between them cost build time and gain nothing here.
    target_compile_definitions(taper_kernels PRIVATE
      "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
  elseif(sources AND NOT name STREQUAL "ops")
    taper_use_library_header(taper_${name})
  endif()
endfunction()

# The command line: src/cli/main.cpp is the program, all other files a library that its tests link.
function(taper_cli)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  taper_library(taper_cli SOURCES ${sources} LINK taper_formats taper_infer taper_train taper_report CLI11::CLI11)
  add_executable(taper ${CMAKE_SOURCE_DIR}/src/cli/main.cpp)
  target_link_libraries(taper PRIVATE taper_cli)
  foreach(target taper_cli taper)
    taper_use_cli_header(${target})
  endforeach()
endfunction()

# taper_use_header(target name OPTIMIZE flag HEADERS headers... LINK targets...): compiles the target with the
# precompiled header <name>, made once for all that use it, at one level of optimisation.
function(taper_use_header target name)
  cmake_parse_arguments(arg "" "OPTIMIZE" "HEADERS;LINK" ${ARGN})
  set(holder taper_${name}_header)
  if(NOT TARGET ${holder})
    file(WRITE ${CMAKE_BINARY_DIR}/${holder}.cpp "// Holds the precompiled header.\n")
    add_library(${holder} OBJECT ${CMAKE_BINARY_DIR}/${holder}.cpp)
    target_link_libraries(${holder} PRIVATE ${arg_LINK})
    target_compile_options(${holder} PRIVATE $<$<CONFIG:Release>:${arg_OPTIMIZE}>)
    target_precompile_headers(${holder} PRIVATE ${arg_HEADERS})
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${arg_OPTIMIZE}>)
  target_precompile_headers(${target} REUSE_FROM ${holder})
endfunction()

# Headers that cost seconds a file: of the standard library and JSON everywhere, the parser of the command line, the
# test frame. Command line and tests call the loops of other layers and have none of their own that count: -O1 takes a
# third less time.
set(taper_common_headers <nlohmann/json.hpp> <fmt/format.h> <fmt/ranges.h> <algorithm> <filesystem> <fstream>
  <functional> <map> <memory> <optional> <span> <string> <vector>)
set(taper_common_targets nlohmann_json::nlohmann_json fmt::fmt)
macro(taper_use_library_header target)
  taper_use_header(${target} library OPTIMIZE -O2 HEADERS ${taper_common_headers} LINK ${taper_common_targets})
endmacro()
macro(taper_use_cli_header target)
  taper_use_header(${target} cli OPTIMIZE -O1
    HEADERS <CLI/CLI.hpp> ${taper_common_headers} LINK CLI11::CLI11 ${taper_common_targets})
endmacro()
macro(taper_use_test_header target)
  taper_use_header(${target} test OPTIMIZE -O1
    HEADERS <gtest/gtest.h> <gmock/gmock.h> ${taper_common_headers}
    LINK GTest::gtest GTest::gmock ${taper_common_targets})
endmacro()

# taper_tests(layer targets...): one test program <layer>_tests of tests/<layer>/**_test.cpp; it may link more
# than its layer, to compare with it.
function(taper_tests name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_tests ${sources})
  target_include_directories(${name}_tests PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name}_tests PRIVATE taper_${name} ${ARGN} GTest::gtest GTest::gmock
                                              GTest::gtest_main)
  target_compile_definitions(${name}_tests PRIVATE
    TAPER_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TAPER_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  taper_use_test_header(${name}_tests)
  if(name STREQUAL "cli" OR name STREQUAL "train")
    add_dependencies(${name}_tests taper)
  endif()
  gtest_discover_tests(${name}_tests DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 900)
endfunction()
