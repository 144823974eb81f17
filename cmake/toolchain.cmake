# Compiler flags; ccache and mold where present.
find_program(TAPER_CCACHE ccache)
if(TAPER_CCACHE)
  # A precompiled header is cached only if ccache may ignore its time stamp and the macros it defines.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${TAPER_CCACHE})
endif()
find_program(TAPER_MOLD mold)
if(TAPER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Plain x86-64: wider instructions are chosen at run time, in src/kernels only.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g")

add_compile_options(-Wall -Wextra -Wshadow -fno-math-errno)
if(TAPER_WERROR)
  add_compile_options(-Werror)
endif()
set_property(CACHE TAPER_SANITIZE PROPERTY STRINGS "" address thread)
if(TAPER_SANITIZE STREQUAL "address")
  set(sanitizers address,undefined)
  add_compile_options(-fno-sanitize-recover=undefined)
elseif(TAPER_SANITIZE STREQUAL "thread")
  set(sanitizers thread)
elseif(TAPER_SANITIZE)
  message(FATAL_ERROR "TAPER_SANITIZE is ${TAPER_SANITIZE}: address, thread, or empty for none")
endif()
if(TAPER_SANITIZE)
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizers})
endif()
