# Flags every target shares. -fPIC is given to all of them alike (libraries and programs), so that
# one precompiled LibTorch header serves every target.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # No garbage collection below 1 GB: it would take 3 to 8 % of the compilations.
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()
add_compile_options(-fPIC -Wall -Wextra -Werror -Wno-psabi -fstack-protector-strong -fdiagnostics-color=auto)
if(WMTP_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-subobject-linkage)  # takes the sources of a batch for headers
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # It serves the sanitizers, g++ the warnings; libstdc++'s own deprecations show through precompiled headers.
  add_compile_options(-Wno-error -Wno-deprecated-declarations)
endif()
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie> -Wl,-z,relro,-z,now)

# The GPU plugin resolves core/, tensor/ and comm/ against the program that loads it.
set(CMAKE_ENABLE_EXPORTS ON)

find_program(WMTP_CCACHE ccache)
if(WMTP_CCACHE)
  # Paths relative to the checkout, so that all checkouts of a user share one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${WMTP_CCACHE})
endif()
find_program(WMTP_MOLD mold)
if(WMTP_MOLD)
  add_link_options(-fuse-ld=mold)
  set_property(GLOBAL PROPERTY RULE_LAUNCH_LINK ${CMAKE_SOURCE_DIR}/tools/link)
endif()

if(WMTP_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")  # half the time to compile, stacks that can be read
  add_compile_options(-fsanitize=${WMTP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WMTP_SANITIZE})
  if(WMTP_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=undefined -fno-sanitize=vptr)
    add_link_options(-fsanitize=undefined)
  endif()
endif()

if(WMTP_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "[build] WMTP_FUZZ needs clang; make sanitize configures it")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_compile_definitions(WMTP_FUZZ=1)
endif()
