package org.apache.iceberg.rest;

import java.io.IOException;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.iceberg.rest.HTTPRequest.HTTPMethod;
import org.apache.iceberg.rest.auth.AuthSession;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.RenameTableRequest;
import org.apache.iceberg.rest.responses.CreateNamespaceResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.GetNamespaceResponse;
import org.apache.iceberg.rest.responses.ListNamespacesResponse;
import org.apache.iceberg.rest.responses.ListTablesResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;

/** Iceberg's own HTTP client, with the names of Sluice on the wire and the names of the kit on this side. */
class SluiceClient extends BaseHTTPClient {
  private final BaseHTTPClient client;
  private final SluiceNames names;

  SluiceClient(BaseHTTPClient client, SluiceNames names) {
    this.client = client;
    this.names = names;
  }

  @Override
  public RESTClient withAuthSession(AuthSession session) {
    return new SluiceClient((BaseHTTPClient) client.withAuthSession(session), names);
  }

  @Override
  protected HTTPRequest buildRequest(
      HTTPMethod method, String path, Map<String, String> query, Map<String, String> headers, Object body) {
    return client.buildRequest(method, names.path(path), query, headers, sent(body));
  }

  @Override
  protected <T extends RESTResponse> T execute(
      HTTPRequest request,
      Class<T> type,
      Consumer<ErrorResponse> onError,
      Consumer<Map<String, String>> onHeaders) {
    return execute(request, type, onError, onHeaders, null);
  }

  @Override
  protected <T extends RESTResponse> T execute(
      HTTPRequest request,
      Class<T> type,
      Consumer<ErrorResponse> onError,
      Consumer<Map<String, String>> onHeaders,
      ParserContext context) {
    var onKitError = new KitErrors((ErrorHandler) onError);
    var answer =
        context == null
            ? client.execute(request, type, onKitError, onHeaders)
            : client.execute(request, type, onKitError, onHeaders, context);
    return type == null || answer == null ? answer : type.cast(received(answer));
  }

  @Override
  public void close() throws IOException {
    client.close();
  }

  private Object sent(Object body) {
    if (body instanceof CreateNamespaceRequest request)
      return CreateNamespaceRequest.builder()
          .withNamespace(names.namespace(request.namespace()))
          .setProperties(request.properties())
          .build();
    if (body instanceof RenameTableRequest request)
      return RenameTableRequest.builder()
          .withSource(names.table(request.source()))
          .withDestination(names.table(request.destination()))
          .build();
    return body;
  }

  private Object received(Object answer) {
    if (answer instanceof LoadTableResponse table) KitFiles.moveTo(table.tableMetadata().location(), table.config());
    if (answer instanceof ListTablesResponse list)
      return ListTablesResponse.builder()
          .addAll(list.identifiers().stream().map(names::kitTable).toList())
          .nextPageToken(list.nextPageToken())
          .build();
    if (answer instanceof ListNamespacesResponse list)
      return ListNamespacesResponse.builder()
          .addAll(list.namespaces().stream().map(names::kitNamespace).toList())
          .nextPageToken(list.nextPageToken())
          .build();
    if (answer instanceof CreateNamespaceResponse created)
      return CreateNamespaceResponse.builder()
          .withNamespace(names.kitNamespace(created.namespace()))
          .setProperties(created.properties())
          .build();
    if (answer instanceof GetNamespaceResponse found)
      return GetNamespaceResponse.builder()
          .withNamespace(names.kitNamespace(found.namespace()))
          .setProperties(found.properties())
          .build();
    return answer;
  }

  /** Raises the errors of the kit's own handler, with the names of the kit. */
  private class KitErrors extends ErrorHandler {
    private final ErrorHandler handler;

    KitErrors(ErrorHandler handler) {
      this.handler = handler;
    }

    @Override
    public ErrorResponse parseResponse(int code, String body) {
      return handler.parseResponse(code, KitMessages.of(names.kitMessage(body)));
    }

    @Override
    public void accept(ErrorResponse error) {
      handler.accept(error);
    }
  }
}
