# Toolchain file: compiles for another system with zig's C compiler, which brings the headers and
# the libraries of many systems. scripts/dist.sh uses it; it needs `pip install ziglang`.
#   cmake --toolchain cmake/zig.cmake -DZIG=/path/to/zig -DZIG_TARGET=aarch64-linux-gnu.2.17
# ZIG_TARGET is an architecture, a system and an ABI, each with a version if wanted: the oldest glibc
# or macOS that the result runs on. ZIG_TOOLS is a folder with the programs zig-ar and zig-ranlib,
# which call `zig ar` and `zig ranlib`: CMake takes no arguments for these. For macOS it also has
# zig-install-name-tool: CMake wants such a program, but nothing here may need it, because a change
# to a linked file would spoil its signature.
foreach(name IN ITEMS ZIG ZIG_TARGET ZIG_TOOLS)
  if(NOT DEFINED ${name})
    message(FATAL_ERROR "cmake/zig.cmake needs -D${name}=...")
  endif()
  list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ${name})
endforeach()

string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${ZIG_TARGET}")
if(ZIG_TARGET MATCHES "-macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  set(CMAKE_OSX_SYSROOT "" CACHE STRING "") # zig has its own
  set(CMAKE_OSX_DEPLOYMENT_TARGET "" CACHE STRING "") # ZIG_TARGET has it
elseif(ZIG_TARGET MATCHES "-windows")
  set(CMAKE_SYSTEM_NAME Windows)
  set(CMAKE_RC_COMPILER_INIT true) # there are no resources
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()

set(CMAKE_C_COMPILER ${ZIG} cc)
set(CMAKE_C_COMPILER_TARGET ${ZIG_TARGET})
set(CMAKE_AR ${ZIG_TOOLS}/zig-ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${ZIG_TOOLS}/zig-ranlib CACHE FILEPATH "")
if(CMAKE_SYSTEM_NAME STREQUAL Darwin)
  set(CMAKE_INSTALL_NAME_TOOL ${ZIG_TOOLS}/zig-install-name-tool CACHE FILEPATH "")
endif()

# The libraries of this machine are not those of the target.
set(CMAKE_FIND_ROOT_PATH ${ZIG_TOOLS}/no-such-folder)
foreach(what IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${what} ONLY)
endforeach()
