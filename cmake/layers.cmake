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
    target_compile_options(taper_kernels PRIVATE $<$<CONFIG:Release>:-O3>)
    # SSE2, AVX2 and AVX-512: the steps between them cost build time and gain nothing here.
    target_compile_definitions(taper_kernels PRIVATE
      "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
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

# taper_use_header(target name headers... LINK targets...): compiles the target with the precompiled header <name>,
# made once for all that use it. Such code calls the loops of other layers and has none of its own that count: -O1
# takes a third less time to compile.
function(taper_use_header target name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  set(holder taper_${name}_header)
  if(NOT TARGET ${holder})
    file(WRITE ${CMAKE_BINARY_DIR}/${holder}.cpp "// Holds the precompiled header.\n")
    add_library(${holder} OBJECT ${CMAKE_BINARY_DIR}/${holder}.cpp)
    target_link_libraries(${holder} PRIVATE ${arg_LINK})
    target_compile_options(${holder} PRIVATE $<$<CONFIG:Release>:-O1>)
    target_precompile_headers(${holder} PRIVATE ${arg_UNPARSED_ARGUMENTS})
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(${target} REUSE_FROM ${holder})
endfunction()

# The two libraries whose headers cost seconds a file: the parser of the command line, the test frame.
macro(taper_use_cli_header target)
  taper_use_header(${target} cli <CLI/CLI.hpp> LINK CLI11::CLI11)
endmacro()
macro(taper_use_test_header target)
  taper_use_header(${target} test <gtest/gtest.h> <gmock/gmock.h> LINK GTest::gtest GTest::gmock)
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
