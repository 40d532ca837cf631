# What `make install` copies: executables, job scripts, documents.
foreach(program sluice sluice-dataset sluice-run)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(DIRECTORY jobscripts/ DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/jobscripts USE_SOURCE_PERMISSIONS
        FILES_MATCHING PATTERN "*.sbatch" PATTERN "submit.sh")
install(FILES jobscripts/env.sh jobscripts/steps.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/jobscripts)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
