# Starts a program that has a network of its own, and connects it with the runner. Two sockets with the mode 0600 carry all
# connections. One leads to the port of the program. The other leads from a port inside of the network to the API.
# Arguments: socket and port of the program, socket and port of the API, and the command of the program.
import ctypes
import os
import signal
import socket
import sys
import threading

CHUNK_BYTES = 65_536
WAITING = 128
PR_SET_PDEATHSIG = 1


def pump(source, target):
    try:
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # The other direction ends, too, because one side is gone.
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def relay(client, connect):
    try:
        server = connect()
    except OSError:
        client.close()
        return
    back = threading.Thread(target=pump, args=(server, client), daemon=True)
    back.start()
    pump(client, server)
    back.join()
    client.close()
    server.close()


def serve(listener, connect):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=relay, args=(client, connect), daemon=True).start()


def listening(family, address):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(WAITING)
    return listener


def connected(family, address):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.connect(address)
    return server


def main():
    program_socket, program_port, api_socket, api_port, *command = sys.argv[1:]
    os.umask(0o177)
    program = listening(socket.AF_UNIX, program_socket)
    os.umask(0o077)
    api = listening(socket.AF_INET, ("127.0.0.1", int(api_port)))
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        # The program ends with this process, and this process with the program.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            os.execv(command[0], command)
        os._exit(1)
    print(f"process {child}", file=sys.stderr, flush=True)
    to_api = lambda: connected(socket.AF_UNIX, api_socket)
    threading.Thread(target=serve, args=(api, to_api), daemon=True).start()
    to_program = lambda: connected(socket.AF_INET, ("127.0.0.1", int(program_port)))
    threading.Thread(target=serve, args=(program, to_program), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


main()
