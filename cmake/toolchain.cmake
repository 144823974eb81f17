# Compiler flags, ccache and mold where present.
find_program(TAPER_CCACHE ccache)
if(TAPER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TAPER_CCACHE})
endif()
find_program(TAPER_MOLD mold)
if(TAPER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wshadow -fno-math-errno)
if(TAPER_WERROR)
  add_compile_options(-Werror)
endif()
if(TAPER_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
