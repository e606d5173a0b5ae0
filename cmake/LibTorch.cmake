# Imports LibTorch from a torch 2.11.0 Python package, without find_package(Torch), which demands a
# CUDA toolkit even for CPU use. Places tried, in this order: WMTP_TORCH_DIR (a wrong version there is
# an error), the active Python (another version is skipped with a notice), the user's cache folder
# that tools/setup fills.
set(WMTP_TORCH_VERSION 2.11.0)

function(wmtp_torch_version dir out)
  set(${out} "" PARENT_SCOPE)
  if(EXISTS ${dir}/version.py AND EXISTS ${dir}/lib/libtorch_cpu.so)
    file(STRINGS ${dir}/version.py line REGEX "^__version__ = ")
    string(REGEX REPLACE "^__version__ = '([0-9.]+).*" "\\1" version "${line}")
    set(${out} "${version}" PARENT_SCOPE)
  endif()
endfunction()

set(WMTP_TORCH_ROOT "")
if(WMTP_TORCH_DIR)
  wmtp_torch_version(${WMTP_TORCH_DIR} version)
  if(NOT version)
    message(FATAL_ERROR "[build] WMTP_TORCH_DIR=${WMTP_TORCH_DIR} holds no LibTorch (no lib/libtorch_cpu.so); "
      "give the folder of an installed torch ${WMTP_TORCH_VERSION} package, or leave it out and run tools/setup")
  elseif(NOT version STREQUAL WMTP_TORCH_VERSION)
    message(FATAL_ERROR "[build] WMTP_TORCH_DIR=${WMTP_TORCH_DIR} holds torch ${version}, wmtp needs "
      "${WMTP_TORCH_VERSION}; install torch==${WMTP_TORCH_VERSION} there or leave the option out")
  endif()
  set(WMTP_TORCH_ROOT ${WMTP_TORCH_DIR})
else()
  execute_process(COMMAND python3 -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE candidate OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(candidate)
    wmtp_torch_version(${candidate} version)
    if(version STREQUAL WMTP_TORCH_VERSION)
      set(WMTP_TORCH_ROOT ${candidate})
    elseif(version)
      message(NOTICE "[build] the active Python has torch ${version}, not ${WMTP_TORCH_VERSION}: skipped")
    endif()
  endif()
  if(NOT WMTP_TORCH_ROOT)
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/setup --print-torch-dir
      OUTPUT_VARIABLE candidate OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    wmtp_torch_version("${candidate}" version)
    if(version STREQUAL WMTP_TORCH_VERSION)
      set(WMTP_TORCH_ROOT ${candidate})
    endif()
  endif()
  if(NOT WMTP_TORCH_ROOT)
    message(FATAL_ERROR "[build] LibTorch ${WMTP_TORCH_VERSION} not found: not in WMTP_TORCH_DIR, the active Python or the "
      "cache folder; run tools/setup (make demo and make test do it for you)")
  endif()
endif()
message(STATUS "LibTorch ${WMTP_TORCH_VERSION}: ${WMTP_TORCH_ROOT}")
get_filename_component(WMTP_SITE_PACKAGES ${WMTP_TORCH_ROOT} DIRECTORY)

# Programs find LibTorch through this link (RUNPATH $ORIGIN/../lib/site-packages/torch/lib), so the
# build tree and the bundle have the same shape.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
file(CREATE_LINK ${WMTP_SITE_PACKAGES} ${CMAKE_BINARY_DIR}/lib/site-packages SYMBOLIC)
set(CMAKE_BUILD_RPATH "\$ORIGIN/../lib/site-packages/torch/lib")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_SKIP_RPATH OFF)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "\$ORIGIN/../lib/site-packages/torch/lib;\$ORIGIN/../lib;\$ORIGIN")

# torch carries headers of another fmt, without its library: ours must be found first.
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
file(CREATE_LINK ${fmt_include}/fmt ${CMAKE_BINARY_DIR}/include/fmt SYMBOLIC)

# Headers are named through the link too: command lines then do not depend on where LibTorch lies, and
# ccache serves all checkouts and both kinds of installation.
set(WMTP_TORCH_INCLUDE ${CMAKE_BINARY_DIR}/lib/site-packages/torch/include)
add_library(wmtp_torch INTERFACE)
target_include_directories(wmtp_torch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/include)
target_include_directories(wmtp_torch SYSTEM INTERFACE ${WMTP_TORCH_INCLUDE} ${WMTP_TORCH_INCLUDE}/torch/csrc/api/include)
target_compile_definitions(wmtp_torch INTERFACE AT_PER_OPERATOR_HEADERS USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(wmtp_torch INTERFACE ${WMTP_TORCH_ROOT}/lib/libtorch_cpu.so ${WMTP_TORCH_ROOT}/lib/libc10.so)
