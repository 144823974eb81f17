# What `cmake --install` and `make install` put below the prefix: the program, its manual page and completions, which
# it prints itself, and the files that it or a user reads.
include(GNUInstallDirs)

# taper_page(file arguments...): build/<preset>/pages/<file>, printed by `taper arguments...`.
set(taper_pages ${CMAKE_BINARY_DIR}/pages)
function(taper_page file)
  set(page ${taper_pages}/${file})
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${taper_pages}
    COMMAND taper ${ARGN} > ${page}
    DEPENDS taper
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY TAPER_PAGES ${page})
endfunction()

taper_page(taper.1 manual)
foreach(shell bash zsh fish)
  taper_page(taper.${shell} completion ${shell})
endforeach()
get_property(pages GLOBAL PROPERTY TAPER_PAGES)
add_custom_target(taper_pages ALL DEPENDS ${pages})
if(TARGET cli_tests)
  add_dependencies(cli_tests taper_pages)
endif()

set(share ${CMAKE_INSTALL_DATADIR})
install(TARGETS taper)
install(FILES ${taper_pages}/taper.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${taper_pages}/taper.bash DESTINATION ${share}/bash-completion/completions RENAME taper)
install(FILES ${taper_pages}/taper.zsh DESTINATION ${share}/zsh/site-functions RENAME _taper)
install(FILES ${taper_pages}/taper.fish DESTINATION ${share}/fish/vendor_completions.d)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY configs DESTINATION ${share}/taper FILES_MATCHING PATTERN "*.toml")
install(DIRECTORY bench/peers DESTINATION ${share}/taper/bench
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
